"""Rows that share a prefix give the same log-probabilities and gradients as plain passes, from fewer tokens."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from coevolve.core.workers import Local
from coevolve.policies.policy import Replicas
from coevolve.stages.train import shared_prefix
from coevolve.stages.train.grpo import learn
from coevolve.stages.train.parallel_grpo import RowPart, Team, make_learner
from coevolve.stages.train.shared_prefix import LEAST, WORTH
from tests import POLICY
from tests.unit.stages.train.small import WORLD, changed, job, outputs, settings
from tests.unit.stages.train.test_shared_prefix import batch, rows_of


@pytest.mark.parametrize("lora", [False, True])
def test_grpo_learns_the_same_from_shared_prefixes(lora: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With short rows of the tiny policy, whose prompts show no tools because it has learned them."""
    shared = changed(steps=1, save_steps=1, lora={"enabled": lora})
    plain = shared.model_copy(update={"share_prefixes": False})
    steps = {}
    for name, config, least in (("plain", plain, LEAST), ("short", shared, LEAST), ("shared", shared, 8)):
        monkeypatch.setattr(shared_prefix, "LEAST", least)
        monkeypatch.setattr(shared_prefix, "WORTH", WORTH if least == LEAST else 0)
        learn(settings(config), WORLD, job(tmp_path / name))
        steps[name] = json.loads((tmp_path / name / "metrics.jsonl").read_text().splitlines()[0])
    policies = {name: outputs(tmp_path / name / "policy") for name in steps}
    assert policies["short"] == policies["plain"], "not worth it: the pass of TRL, to the last bit"
    assert policies["shared"] != policies["plain"], "sums in another order"
    for figure in ("loss", "grad_norm", "kl", "entropy"):
        if figure in steps["plain"]:
            assert steps["shared"][figure] == pytest.approx(steps["plain"][figure], rel=1e-3, abs=1e-6), figure
    assert (tmp_path / "shared/trajectories.parquet").read_bytes() == (
        tmp_path / "plain/trajectories.parquet"
    ).read_bytes()


def test_shared_passes_give_the_same_bits_in_any_number_of_processes() -> None:
    results = []
    for shares, count in ((False, 1), (True, 1), (True, 2)):
        parts = []
        for seed in range(3):
            ids, mask = batch(rows_of([[9, 5, 30], [12, 3]], tools=130, seed=seed), prompt=150)
            parts.append(RowPart(ids + 5, mask, 30, seed, shares))
        arguments = (POLICY, 1, 1.0, {}, "float32", None, shares)
        learner = make_learner(*arguments)
        replicas = Replicas(Local(count), make_learner, *arguments) if count > 1 else None
        with replicas or nullcontext():
            team = Team(replicas)
            team.lead(learner)
            scores = team.scores(parts, anchor=False)
            torch.cat([logps.flatten() for logps, *_ in scores]).mean().backward()
        gradients = [parameter.grad for parameter in learner.model.parameters()]
        results.append([logps.detach() for logps, *_ in scores] + gradients)
    plain, alone, together = results
    assert all(map(torch.equal, alone, together))
    assert not all(map(torch.equal, alone, plain)), "sums in another order"
    torch.testing.assert_close(alone, plain, atol=1e-4, rtol=1e-4)
