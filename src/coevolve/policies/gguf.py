"""A GGUF file as a model directory of transformers."""

from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, first_line, install
from coevolve.policies.gguf_header import check

TOKENS = "tokenizer.ggml.tokens"
SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def load(file: Path, dtype: str) -> tuple[Any, Any]:
    """The model, with its weights dequantized to ``dtype``, and its tokenizer. An unreadable file is a CoevolveError."""
    if find_spec("gguf") is None:
        raise CoevolveError(f"a GGUF file is read by the package gguf; run `{install('gguf')}`")
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    where = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    try:
        weights = check(file)
        config = AutoConfig.from_pretrained(**where)
        _check_size(deepcopy(config), weights)
        special = _special(file)
        tokenizer = AutoTokenizer.from_pretrained(**where, local_files_only=True)  # see transformers_policy.load
        model = AutoModelForCausalLM.from_pretrained(**where, config=config, dtype=getattr(torch, dtype))
    except Exception as error:  # libraries raise many errors for other files, damaged files and other architectures
        if isinstance(error, MemoryError):
            raise
        reason = first_line(error)
        raise CoevolveError(f"{file}: not a GGUF file of an architecture that transformers reads ({reason})") from None
    # transformers chooses other special tokens than the file, and refuses to save weights that were quantized
    tokenizer.add_special_tokens(special)
    tokenizer.clean_up_tokenization_spaces = (
        False  # applies to tokenizers of word pieces, and this is none; true would print a warning at every load
    )
    model.hf_quantizer, model.is_quantized = None, False
    del model.config.quantization_config
    for name, token in special.items():
        place = tokenizer.convert_tokens_to_ids(token)
        for config in (model.config, model.generation_config):
            setattr(config, f"{name}_id", place)
    return model, tokenizer


def _check_size(config: Any, weights: int) -> None:
    """Raise a ValueError if ``config`` describes far more weights than the file has: the rest would be random weights."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    described = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    if described > 2 * weights:
        raise ValueError(f"its metadata describe a model of {described} weights, but it holds {weights}")


def _special(file: Path) -> dict[str, str]:
    """The special tokens that the file's metadata name."""
    from gguf import GGUFReader

    fields = GGUFReader(str(file)).fields
    tokens = fields[TOKENS]
    found = {}
    for name, key in SPECIAL.items():
        if (field := fields.get(f"tokenizer.ggml.{key}_token_id")) is not None:
            found[name] = bytes(tokens.parts[tokens.data[int(field.contents())]]).decode("utf-8")
    return found
