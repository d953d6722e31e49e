"""By which floating-point arithmetic a process computes: one that x86-64 processors with AVX2 share, or its machine's own.

Libraries choose their kernels by the processor that they find, and kernels differ in the order of their sums: a few
gradient steps later the same seed is another policy. Here the choices that outputs depend on are made once, for all
processors. What was measured, and what cannot agree: docs/experiments/reproducibility.md.
"""

import ctypes
import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError

CHOICE = "COEVOLVE_ARITHMETIC"
SHARED, NATIVE = "shared", "native"

# Libraries read them when they first compute. A value of the user's own stands.
VARIABLES = {
    # torch's own kernels: sums over vectors of 8, also where the processor has vectors of 16
    "ATEN_CPU_CAPABILITY": "avx2",
    # MKL, by which torch multiplies matrices: of its branches the one that it takes on AMD's processors as on Intel's;
    # the others it refuses AMD's without a word
    "MKL_CBWR": "COMPATIBLE",
}
BRANCH = 1  # what MKL is asked for: its branch, without the flags
COMPATIBLE = 3  # the answer

X86 = ("x86_64", "AMD64")


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``name`` is the same wherever bytes are; ``shared``, whether other machines have it too."""

    name: str
    shared: bool


def pin() -> None:
    """Choose the shared arithmetic for the libraries that this process has yet to load, unless the user chose otherwise."""
    if os.environ.get(CHOICE, SHARED) != NATIVE and able():
        for name, value in VARIABLES.items():
            os.environ.setdefault(name, value)


@cache
def able() -> bool:
    """Whether this machine has the instructions; told to use what it has not, torch would crash."""
    file = Path("/proc/cpuinfo")
    if platform.machine() not in X86 or not file.exists():
        return False
    return {"avx2", "fma"} <= set(file.read_text(encoding="utf-8").split())


def settle(threads: int | None = None) -> None:
    """torch's side of it, before it computes. ``threads`` are part of an arithmetic: sums are divided among them."""
    import torch

    chosen = os.environ.get(CHOICE, SHARED)
    if chosen not in (SHARED, NATIVE):
        raise CoevolveError(f"{CHOICE}: expected {SHARED} or {NATIVE}, not {chosen!r}; unset it for {SHARED}")
    if threads is not None:
        torch.set_num_threads(threads)
    if chosen == SHARED and able():
        _exact_roots()


@cache
def _exact_roots() -> Any:
    """torch.sqrt by the processor's square root, which IEEE 754 defines to the last bit.

    torch's own is MKL's, which begins at the processor's *approximate* 1/√x, in every branch: a tenth of its roots are a
    bit off, on AMD's processors others than on Intel's.
    """
    import warnings

    import numpy as np
    import torch

    def root(x: Any) -> Any:
        real = x.is_floating_point() or x.is_complex()
        wide = x.detach() if real else x.to(torch.get_default_dtype())
        wide = wide.float() if wide.dtype in (torch.bfloat16, torch.float16) else wide
        with np.errstate(invalid="ignore"):
            found = torch.from_numpy(np.asarray(np.sqrt(wide.resolve_conj().resolve_neg().numpy())))
        return found.to(x.dtype) if real else found

    def root_into(x: Any, *, out: Any) -> Any:
        return out.resize_(x.shape).copy_(root(x))

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that this replaces a kernel is the point
        for name, kernel in (("sqrt", root), ("sqrt_", lambda x: x.copy_(root(x))), ("sqrt.out", root_into)):
            library.impl(name, kernel, "CPU")
    return library  # the kernels live as long as it does


def in_effect() -> Arithmetic:
    """What torch and MKL report, whatever variables say."""
    import torch

    settle()
    version = torch.__version__.partition("+")[0]  # builds for CPUs and for GPUs compute alike on a CPU
    if torch.cuda.is_available():
        return Arithmetic(f"native: CUDA, {torch.cuda.get_device_name()}, torch {version}", False)
    machine = "x86-64" if platform.machine() in X86 else platform.machine()
    capability = torch.backends.cpu.get_cpu_capability()
    name = f"{machine} {capability}, torch {version}"
    shared = (machine, capability, _mkl_branch()) == ("x86-64", "AVX2", COMPATIBLE) and _roots_are_exact()
    return Arithmetic(name if shared else f"native: {name}", shared)


def _mkl_branch() -> int | None:
    """The branch that MKL takes in this process; None without MKL."""
    import torch

    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    try:
        return int(library.mkl_serv_cbwr_get(BRANCH))
    except AttributeError:
        return None


def _roots_are_exact() -> bool:
    import numpy as np
    import torch

    numbers = np.linspace(1, 4, 4096, dtype=np.float32)  # of MKL's roots some hundreds are not
    return bool((torch.sqrt(torch.from_numpy(numbers)).numpy() == np.sqrt(numbers)).all())
