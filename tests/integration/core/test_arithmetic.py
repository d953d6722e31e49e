"""Stages, commands and their workers use shared arithmetic. A process that only imports the package does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from coevolve.core.arithmetic import CHOICE, KNOWN, VARIABLES, able, digest, settle
from tests import ROOT

pytestmark = pytest.mark.skipif(not able(), reason="not an x86-64 processor with AVX2: its arithmetic is its own")

PIN = "from coevolve.core.arithmetic import pin; pin()\n"
SAY = "from coevolve.core.arithmetic import in_effect; one = in_effect(); print(one.shared, one.name)"


def python(code: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a process that inherits none of the pinned variables of the tests."""
    clean = {key: value for key, value in os.environ.items() if key not in (CHOICE, *VARIABLES)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env={**clean, **variables}, capture_output=True, text=True)


@pytest.mark.parametrize("changes", [{CHOICE: "native"}, {"MKL_CBWR": "AVX2"}])
def test_native_arithmetic_chosen_by_the_user_is_kept_and_reported(changes: dict[str, str]) -> None:
    done = python(PIN + SAY, **changes)
    assert done.stdout.startswith("False native "), done.stdout + done.stderr


def test_unknown_choice_is_a_one_line_error() -> None:
    done = python("from coevolve.cli import main; main(['env', 'list'])", **{CHOICE: "exact"})
    assert done.returncode == 1
    assert done.stderr == f"error: {CHOICE} is 'exact', expected shared or native; unset it for shared\n"


def test_square_roots_follow_ieee_754_for_every_shape_and_dtype() -> None:
    """No neighbour of the root has a square nearer to the number, checked in exact fractions."""
    code = """
import random
from fractions import Fraction
import numpy as np, torch
from coevolve.core.arithmetic import pin, settle
pin()
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


def test_importing_the_package_changes_neither_torch_nor_the_environment() -> None:
    """Also when the process loads a policy, as a notebook does."""
    done = python("""
import os, torch
kernels = [torch._C._dispatch_dump_table(f"aten::{name}") for name in ("mm", "addmm", "sqrt")]
variables = dict(os.environ)
import coevolve.cli, coevolve.core.io, coevolve.core.processes, coevolve.commands.stage, coevolve.core.trajectories
assert dict(os.environ) == variables, set(os.environ.items()) ^ set(variables.items())
from coevolve.core.arithmetic import VARIABLES, in_effect
from coevolve.policies.transformers_policy import load
load("src/coevolve_environments/miniworld/policy")
assert not set(VARIABLES) & set(os.environ)
assert kernels == [torch._C._dispatch_dump_table(f"aten::{name}") for name in ("mm", "addmm", "sqrt")]
print(in_effect().name)
""")
    assert done.stdout.startswith("native "), done.stdout + done.stderr


WORKER = """
from coevolve.core.arithmetic import in_effect, pin
from coevolve.core.processes import Worker
if __name__ == "__main__":
    {first}
    worker = Worker(None, in_effect)
    print(worker.call("__repr__"))
"""


@pytest.mark.parametrize(
    "door",
    [
        "from coevolve.cli import main; main(['stage', 'evaluate', '0'])",
        "from coevolve.cli import main; main(['env', 'list'])",
        "import torch; torch.zeros(3); from coevolve.core.arithmetic import pin; pin()",  # as in a worker of Ray
    ],
)
def test_every_entry_point_uses_shared_arithmetic(door: str, tmp_path: Path) -> None:
    """Fails on a machine whose results differ from the machines on which the digest was computed."""
    assert torch.__version__.partition("+")[0] in KNOWN, "a new torch: find its digest on two makes of processor"
    shutil.copy(ROOT / "params.yaml", tmp_path)
    done = python(
        f"try:\n    {door}\nfinally:\n    {SAY}", tmp_path, DVC_ROOT=str(tmp_path), PYTHONPATH=str(ROOT / "src")
    )
    assert done.stdout.splitlines()[-1].startswith("True "), done.stdout + done.stderr


@pytest.mark.parametrize(("first", "shared"), [("pin()", True), ("pass", False)])
def test_worker_computes_like_the_process_that_starts_it(tmp_path: Path, first: str, shared: bool) -> None:
    program = tmp_path / "program.py"
    program.write_text(WORKER.format(first=first))
    clean = {key: value for key, value in os.environ.items() if key not in (CHOICE, *VARIABLES)}
    done = subprocess.run([sys.executable, program], env=clean, capture_output=True, text=True)
    assert f"shared={shared}" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_matrix_products_are_correct_for_every_layout(kind: torch.dtype) -> None:
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


def test_digest_leaves_the_random_state_alone() -> None:
    torch.manual_seed(3)
    wanted = torch.rand(2)
    torch.manual_seed(3)
    assert digest() == digest()
    assert torch.equal(torch.rand(2), wanted)
