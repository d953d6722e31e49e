"""A small Qwen3 model from its config, with random weights and Qwen's real chat template."""

from pathlib import Path
from typing import Any


def template(name: str) -> str:
    """A chat template of the hub, from TRL's package."""
    import trl

    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()


def tokenizer(name: str = "qwen3") -> Any:
    """A tokenizer of bytes and Qwen's special tokens."""
    from coevolve.policies.tokenizer import build

    made = build([], [])
    made.add_special_tokens(
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "additional_special_tokens": ["<|im_start|>"]}
    )
    made.chat_template = template(name)
    return made


def make_qwen3(folder: Path, context: int = 4096) -> Path:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    words = tokenizer()
    config = Qwen3Config(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=context, tie_word_embeddings=True,
        eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
