"""The arithmetic that machines share: chosen before libraries compute, told by what comes of it, left if the user says so."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from coevolve.core.arithmetic import CHOICE, KNOWN, VARIABLES, able, digest, settle

VERSION = torch.__version__.partition("+")[0]
SHARED = f"x86-64 AVX2, torch {VERSION}"

able_here = pytest.mark.skipif(
    not able() or torch.cuda.is_available() or VERSION not in KNOWN,
    reason="this machine, or this version of torch, has no part in the shared arithmetic",
)


def said(program: str, **variables: str) -> str:
    """What a fresh process prints; of our variables it has ``variables`` alone."""
    ours = {CHOICE, *VARIABLES}
    environment = {name: value for name, value in os.environ.items() if name not in ours} | variables
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


EFFECT = "from coevolve.core.arithmetic import in_effect; print(in_effect().name)"


@able_here
@pytest.mark.parametrize(
    "door",
    [
        "import coevolve, sys; assert not {'torch', 'numpy'} & set(sys.modules)",
        "import coevolve.cli",
        "import torch, numpy; torch.zeros(3); import coevolve.stages.train.batch",
        "import coevolve.policies.transformers_policy",
    ],
)
def test_it_is_in_effect_by_whichever_door(door: str) -> None:
    """This fails on a machine that computes otherwise than those on which the digest was found."""
    assert said(f"{door}\n{EFFECT}") == SHARED


@able_here
def test_on_several_threads_it_is_told_by_one() -> None:
    program = "from coevolve.core.arithmetic import settle; settle(threads=2)\nimport torch"
    assert said(f"{program}\n{EFFECT}\nprint(torch.get_num_threads())").split("\n") == [SHARED, "2"]


def test_the_user_may_choose_the_machines_own() -> None:
    program = f"import coevolve, os; print([name for name in {list(VARIABLES)} if name in os.environ])"
    assert said(program, **{CHOICE: "native"}) == "[]"
    found = said(EFFECT, **{CHOICE: "native"})
    assert found.startswith("native ") and found == said(EFFECT, **{CHOICE: "native"})


@able_here
@pytest.mark.parametrize(("name", "value"), [("MKL_CBWR", "AVX2"), ("ATEN_CPU_CAPABILITY", "default")])
def test_a_variable_of_the_users_own_stands_and_is_told(name: str, value: str) -> None:
    assert said(f"import coevolve, os; print(os.environ['{name}'])", **{name: value}) == value
    assert said(EFFECT, **{name: value}).startswith("native ")


def test_a_wrong_choice_is_one_line() -> None:
    program = "from coevolve.core.arithmetic import settle\ntry: settle()\nexcept Exception as error: print(error)"
    found = said(program, **{CHOICE: "exact"})
    assert found == f"{CHOICE} is 'exact', expected shared or native; unset it for shared"


@able_here
def test_square_roots_are_exact_in_every_form() -> None:
    settle()
    for kind in (np.float32, np.float64):
        numbers = np.concatenate([np.linspace(1, 4, 4096, dtype=kind), np.array([0, np.inf, 1e-40], dtype=kind)])
        x, wanted = torch.from_numpy(numbers), torch.from_numpy(np.sqrt(numbers))
        assert torch.equal(torch.sqrt(x), wanted)
        assert torch.equal(torch.sqrt(x, out=torch.empty(0, dtype=x.dtype)), wanted)
        assert torch.equal(x[::2].sqrt(), wanted[::2])
        changed = x.clone()
        assert changed.sqrt_() is changed and torch.equal(changed, wanted)
    assert torch.sqrt(torch.tensor(4)).item() == 2.0
    assert torch.sqrt(torch.tensor(-1.0)).isnan()
    leaf = torch.tensor([4.0, 9.0], requires_grad=True)
    torch.sqrt(leaf).sum().backward()
    assert leaf.grad is not None and torch.equal(leaf.grad, torch.tensor([1 / 4, 1 / 6]))


@able_here
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_products_are_products_whatever_the_layout(kind: torch.dtype) -> None:
    settle()
    draw = torch.Generator().manual_seed(0)

    def matrix(rows: int, columns: int, layout: int) -> torch.Tensor:
        side = 3 * max(rows, columns) + 1
        whole = torch.randint(-1, 2, (side, side), generator=draw).to(kind)
        views = [
            whole[:rows, :columns].clone(),
            whole[::3, 1::3][:rows, :columns],
            whole[:1, :columns].expand(rows, -1),
        ]
        views.append(whole[:columns, :rows].t())
        return views[layout]

    for number in range(48):
        m, k, n = (int(size) for size in torch.randint(0 if number % 8 == 0 else 1, 20, (3,), generator=draw))
        a, b, c = matrix(m, k, number % 4), matrix(k, n, number // 4 % 4), matrix(m, n, 0)
        wanted = a.double() @ b.double()  # of small whole numbers, so that every format holds it exactly
        wanted = wanted.to(kind)
        assert torch.equal(a @ b, wanted)
        assert torch.equal(torch.mm(a, b, out=torch.empty(0, dtype=kind)), wanted)
        assert torch.equal(torch.addmm(c, a, b, beta=2, alpha=3), (2 * c.double() + 3 * wanted.double()).to(kind))
        assert torch.equal(c.clone().addmm_(a, b), (c.double() + wanted.double()).to(kind))


def test_telling_leaves_no_trace() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    assert digest() == digest()
    assert torch.equal(torch.rand(2), wanted)
