"""A mixture of environments, from training to evaluation."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.core.outcomes import metrics
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.registry import make
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import by_environment, evaluate
from coevolve.stages.train import grpo
from tests.unit.stages.train.small import ACTING, PARAMS, changed, job, settings


def test_a_mixture_trains_and_is_evaluated_by_its_shares(tmp_path: Path) -> None:
    both = make("0.75*miniworld+0.25*sql")
    tasks = {task.task_id: task for task in both.tasks("seed")[:16]}
    grpo.learn(settings(changed(steps=1)), both, replace(job(tmp_path), tasks=list(tasks.values())))
    played = read_trajectories(tmp_path / "trajectories.parquet")
    groups = {one.group: tasks[one.task_id].environment for one in played if one.group < 4}
    assert Counter(groups.values()) == {"miniworld": 3, "sql": 1}, "the first groups of a step"

    panels = {"validation": both.tasks("validation")[:8]}
    outcomes = evaluate(ReferencePolicy(both, 0.5), both, panels, Limits.of(ACTING), PARAMS.evaluate, 0)
    found = metrics([*outcomes, *by_environment(outcomes, both, panels)], PARAMS.evaluate, 0)
    parts = [found[f"validation.{name}"] for name in ("miniworld", "sql")]
    assert found["validation"].tasks == sum(one.tasks for one in parts) == 8
    assert found["validation"].success * 8 == pytest.approx(sum(one.success * one.tasks for one in parts))
