"""Which environment of a mixture explores."""

import pytest

from coevolve.environments import registry
from coevolve.environments.registry import make
from coevolve.stages.explore.exploration_plan import carry_out, plan
from coevolve.stages.schema import load
from tests import ROOT
from tests.unit.environments.tracker import Secret, Tracker

PARAMS = load(ROOT / "params.yaml")
CONFIG = PARAMS.explore.model_copy(update={"explorations": 8})


@pytest.mark.parametrize("guidance", ["signals", "random", "coverage", "generator"])
def test_environment_without_tasks_explores_nothing(guidance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.REGISTERED, "tracker", Tracker)
    both, config = make("0.5*miniworld+0.5*tracker"), CONFIG.model_copy(update={"guidance": guidance})
    tasks = make("miniworld").tasks("seed")[:4]
    (only,) = plan(both, tasks, [], [], [], config, 0, 0)
    assert only.environment.name == "miniworld"
    assert len(only.requests) == (0 if guidance == "generator" else 4)


@pytest.mark.parametrize(
    ("environment", "said"),
    [(Tracker(), []), (Secret(), ["tools that no exploration reached: 2 of 5 (lost, unlock)"])],
)
def test_tools_that_no_exploration_reached_are_named(environment: Tracker, said: list[str]) -> None:
    config = CONFIG.model_copy(update={"explorations": 200, "guidance": "coverage"})
    plans = plan(environment, environment.tasks("seed"), [], [], [], config, 0, 0)
    found, notes = carry_out(plans, config, PARAMS.policy, None, None, lambda count: None)  # type: ignore[arg-type]
    assert len(found) > 100 and notes == said
