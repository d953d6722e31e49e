"""Choose a process's floating-point arithmetic: the one that all x86-64 processors with AVX2 share, or the machine's own.

Libraries choose their kernels by the processor, and kernels differ in the order of their sums. After a few gradient steps
the same seed then gives another policy. This module makes the choices that outputs depend on, the same for all
processors. Measurements and limits: docs/experiments/reproducibility.md.

A process makes these choices when it calls `pin`. Stages, commands and their workers do so before they import torch.
Importing this module changes neither torch nor the environment.
"""

import hashlib
import os
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError

CHOICE = "COEVOLVE_ARITHMETIC"
SHARED, NATIVE = "shared", "native"

# Libraries read these variables when they first compute. A value that the user set stays.
VARIABLES = {
    # torch's own kernels: sums over vectors of 8, even if the processor has vectors of 16
    "ATEN_CPU_CAPABILITY": "avx2",
    # oneDNN, which multiplies matrices (see `_replace_kernels`): as above
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    # MKL, which attention and elementary functions use: the branch that it takes on AMD's and on Intel's processors.
    # It silently refuses other branches on AMD's.
    "MKL_CBWR": "COMPATIBLE",
}

KNOWN = {"2.13.0": "f1a07278"}  # digest of the shared arithmetic, by version of torch

X86 = ("x86_64", "AMD64")


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An arithmetic. Equal names compute equal results. ``shared`` marks the arithmetic that machines share."""

    name: str
    shared: bool


_pinned = False


def pin() -> None:
    """Choose the shared arithmetic for this process, unless the user chose otherwise. Call it before torch computes anything.

    It sets environment variables, which child processes inherit. `settle` replaces torch's kernels, in this process only.
    """
    global _pinned
    chosen = os.environ.get(CHOICE, SHARED)
    if chosen not in (SHARED, NATIVE):
        raise CoevolveError(f"{CHOICE} is {chosen!r}, expected {SHARED} or {NATIVE}; unset it for {SHARED}")
    if chosen == SHARED and able() and not _pinned:
        for name, value in VARIABLES.items():
            os.environ.setdefault(name, value)
        _pinned = True
        in_effect.cache_clear()


def pinned() -> bool:
    """Whether `pin` chose the shared arithmetic for this process. `in_effect` says whether the choice works."""
    return _pinned


@cache
def able() -> bool:
    """Whether this machine has the instructions of the shared arithmetic. Without them torch would crash."""
    file = Path("/proc/cpuinfo")
    if platform.machine() not in X86 or not file.exists():
        return False
    return {"avx2", "fma"} <= set(file.read_text(encoding="utf-8").split())


def settle(threads: int | None = None) -> None:
    """Prepare torch before it computes: set its ``threads``, and replace its kernels if this process is pinned.

    Threads are part of an arithmetic, because torch divides sums among them.
    """
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    if _pinned and torch.backends.mkldnn.is_available():
        _replace_kernels()


@cache
def _replace_kernels() -> Any:
    """Replace MKL in two of torch's operators on CPUs.

    oneDNN multiplies float32 matrices: its AVX2 kernel is the same on every make of processor, and three times faster than
    MKL's kernel for all makes. The processor's instruction computes square roots, which IEEE 754 defines to the last bit.
    MKL starts from the processor's *approximate* 1/√x, so a tenth of its roots are off by a bit: other roots on AMD's
    processors than on Intel's.
    """
    import numpy as np
    import torch

    library = torch.library.Library("aten", "IMPL")
    multiply = torch.ops.mkldnn._linear_pointwise.default

    def replace(name: str, fits: Callable[..., bool], compute: Callable[..., Any]) -> None:
        """Use ``compute`` for arguments that it ``fits``, in place or into ``out`` for operators of these kinds."""
        original = torch.library.get_kernel(f"aten::{name}", "CPU")

        def kernel(keys: Any, *tensors: Any, **options: Any) -> Any:
            if not fits(*tensors):
                return original.call_boxed(keys, *tensors, **options)
            out = options.pop("out", tensors[0] if name.endswith("_") else None)
            result = compute(*tensors, **options)
            return result if out is None else out.resize_(result.shape).copy_(result)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch warns that this replaces a kernel
            library.impl(name, kernel, "CPU", with_keyset=True)

    def matrices(*tensors: Any) -> bool:
        return all(tensor.dtype == torch.float32 and tensor.numel() for tensor in tensors)

    def mm(a: Any, b: Any) -> Any:
        return multiply(a, b.t(), None, "none", [], "")

    def addmm(c: Any, a: Any, b: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
        return mm(a, b).mul_(alpha).add_(c, alpha=beta)

    def real(x: Any) -> bool:
        return x.dtype in (torch.float32, torch.float64)

    def sqrt(x: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return torch.from_numpy(np.asarray(np.sqrt(x.detach().numpy())))

    for name in ("mm", "mm.out"):
        replace(name, matrices, mm)
    for name in ("addmm", "addmm_", "addmm.out"):
        replace(name, matrices, addmm)
    for name in ("sqrt", "sqrt_", "sqrt.out"):
        replace(name, real, sqrt)
    return library  # the kernels live as long as this object


@cache
def in_effect() -> Arithmetic:
    """The arithmetic of this process, identified by the result of a computation and not by variables."""
    import torch

    settle()
    version = torch.__version__.partition("+")[0]  # builds for CPUs and for GPUs compute alike on a CPU
    if torch.cuda.is_available():
        return Arithmetic(f"native: CUDA, {torch.cuda.get_device_name()}, torch {version}", False)
    machine = "x86-64" if platform.machine() in X86 else platform.machine()
    name = f"{machine} {torch.backends.cpu.get_cpu_capability()}, torch {version}"
    actual = digest()
    return Arithmetic(name, True) if actual == KNOWN.get(version) else Arithmetic(f"native {actual}: {name}", False)


def digest() -> str:
    """Hash of the outputs and gradients of a transformer layer on the CPU, on one thread."""
    import numpy as np
    import torch
    from torch.nn import functional

    rng = np.random.Generator(np.random.Philox(key=0))

    def leaf(*shape: int) -> Any:
        return torch.from_numpy(rng.random(shape, dtype=np.float32) - np.float32(0.5)).requires_grad_()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x, wide, narrow, vocabulary, cache = (
            leaf(1024, 128),
            leaf(320, 128),
            leaf(128, 320),
            leaf(300, 128),
            leaf(4, 4, 300, 32),
        )
        query = (functional.silu(x @ wide.t()) @ narrow.t()).view(4, 256, 4, 32).transpose(1, 2)
        seen = functional.scaled_dot_product_attention(query, cache, cache).transpose(1, 2).reshape(1024, 128)
        logits = functional.linear(seen * torch.rsqrt(seen.pow(2).mean(-1, keepdim=True) + 1e-6), vocabulary)
        logprobs = torch.log_softmax(logits, -1)
        logprobs[:, 0].mean().backward()
        positive = x.detach().abs() + 0.1
        results = [
            logprobs.detach(),
            logprobs.detach().double().exp(),
            *(tensor.grad for tensor in (x, wide, narrow, vocabulary, cache)),
        ]
        results += [function(positive) for function in (torch.exp, torch.log, torch.sqrt, torch.sin, torch.cos)]
        results += [tensor.grad.norm() for tensor in (x, wide)]
    finally:
        torch.set_num_threads(threads)
    return hashlib.sha256(b"".join(tensor.contiguous().numpy().tobytes() for tensor in results)).hexdigest()[:8]
