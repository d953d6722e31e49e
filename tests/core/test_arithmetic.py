"""The arithmetic that is pinned is in effect before anything computes, whichever way the project is entered."""

import os
import subprocess
import sys

import pytest
import torch

from coevolve.core.arithmetic import CHOICE, KNOWN, VARIABLES, able, digest, settle

pytestmark = pytest.mark.skipif(not able(), reason="not an x86-64 processor with AVX2: its arithmetic is its own")

ENTER = "import coevolve.core.calls; "  # any module of ours: the package itself pins
SAY = "from coevolve.core.arithmetic import in_effect; one = in_effect(); print(one.shared, one.name)"


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in (CHOICE, *VARIABLES)}
    return subprocess.run([sys.executable, "-c", code], env={**clean, **variables}, capture_output=True, text=True)


def test_it_is_shared_by_default_and_says_so() -> None:
    done = python(ENTER + SAY)
    assert done.stdout.startswith("True x86-64 AVX2, torch 2.13.0"), done.stdout + done.stderr


@pytest.mark.parametrize("changes", [{CHOICE: "native"}, {"MKL_CBWR": "AVX2"}, {"ATEN_CPU_CAPABILITY": "default"}])
def test_a_choice_of_the_users_own_stands_and_is_not_called_shared(changes: dict[str, str]) -> None:
    done = python(ENTER + SAY, **changes)
    assert done.stdout.startswith("False native "), done.stdout + done.stderr


def test_a_choice_that_is_none_is_one_line() -> None:
    done = python("from coevolve.core.guard import guard\nfrom coevolve.core.arithmetic import in_effect\nguard(in_effect)",
                  **{CHOICE: "exact"})  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"error: {CHOICE} is 'exact', expected shared or native; unset it for shared\n"


def test_roots_are_those_of_ieee_754_in_every_shape_and_type() -> None:
    """By the definition: no neighbour of the root has a square nearer to the number, checked in exact fractions."""
    code = """
import random
from fractions import Fraction
import numpy as np, torch
from coevolve.core.arithmetic import settle
settle()
torch.manual_seed(0)
x = torch.rand(2000) * 10 ** torch.randint(-30, 30, (2000,)).float()
found = torch.sqrt(x)
assert torch.equal(found, x.clone().sqrt_()) and torch.equal(found, torch.sqrt(x, out=torch.empty(0)))
for number, root in zip(x.tolist(), found.numpy()):
    below = (Fraction(float(np.nextafter(root, np.float32(0)))) + Fraction(float(root))) / 2
    above = (Fraction(float(np.nextafter(root, np.float32(np.inf)))) + Fraction(float(root))) / 2
    assert below ** 2 <= Fraction(number) <= above ** 2, (number, root)
y = torch.rand(3, 4, 5).transpose(0, 2).requires_grad_()
torch.sqrt(y).sum().backward()
assert torch.allclose(y.grad, 0.5 / y.detach().sqrt())
assert torch.sqrt(torch.tensor(4)).item() == 2.0 and torch.sqrt(torch.tensor(-1.0)).isnan()
assert torch.sqrt(torch.tensor([4.0], dtype=torch.bfloat16)).dtype == torch.bfloat16
print("exact")
"""
    done = python(code)
    assert done.stdout == "exact\n", done.stderr


def test_stages_and_commands_come_through_the_same_door() -> None:
    """What starts a process of ours imports the package, which pins; what they start inherits it."""
    names = " ".join(VARIABLES)
    code = f"import coevolve, os; print([os.environ.get(name) for name in '{names}'.split()])"
    assert python(code).stdout == f"{list(VARIABLES.values())}\n"
    assert python(code, **{CHOICE: "native"}).stdout == f"{[None for _ in VARIABLES]}\n"


@pytest.mark.parametrize(
    "door",
    [
        "import coevolve, sys; assert not {'torch', 'numpy'} & set(sys.modules)",
        "import coevolve.cli",
        "import torch, numpy; torch.zeros(3); import coevolve.stages.train.batch",
        "from coevolve.core.arithmetic import settle; settle(threads=2)",
    ],
)
def test_it_is_in_effect_by_whichever_door(door: str) -> None:
    """This fails on a machine that computes otherwise than those on which the digest was found."""
    assert torch.__version__.partition("+")[0] in KNOWN, "a new torch: find its digest on two makes of processor"
    done = python(f"{door}\n{SAY}")
    assert done.stdout.startswith("True "), done.stdout + done.stderr


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_products_are_products_whatever_the_layout(kind: torch.dtype) -> None:
    settle()
    draw = torch.Generator().manual_seed(0)

    def matrix(rows: int, columns: int, layout: int) -> torch.Tensor:
        side = 3 * max(rows, columns) + 1
        whole = torch.randint(-1, 2, (side, side), generator=draw).to(kind)
        return (
            whole[:rows, :columns].clone(),
            whole[::3, 1::3][:rows, :columns],
            whole[:1, :columns].expand(rows, -1),
            whole[:columns, :rows].t(),
        )[layout]

    for number in range(48):
        m, k, n = (int(size) for size in torch.randint(0 if number % 8 == 0 else 1, 20, (3,), generator=draw))
        a, b, c = matrix(m, k, number % 4), matrix(k, n, number // 4 % 4), matrix(m, n, 0)
        wanted = (a.double()[:, :, None] * b.double()[None]).sum(1)  # of small whole numbers: exact in every format
        assert torch.equal(a @ b, wanted.to(kind))
        assert torch.equal(torch.mm(a, b, out=torch.empty(0, dtype=kind)), wanted.to(kind))
        assert torch.equal(torch.addmm(c, a, b, beta=2, alpha=3), (2 * c.double() + 3 * wanted).to(kind))
        assert torch.equal(c.clone().addmm_(a, b), (c.double() + wanted).to(kind))


def test_telling_leaves_no_trace() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    assert digest() == digest()
    assert torch.equal(torch.rand(2), wanted)
