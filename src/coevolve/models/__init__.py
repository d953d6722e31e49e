"""Pretrained models as model directories that the loop can train: from a wheel, a GGUF file or the hub."""
