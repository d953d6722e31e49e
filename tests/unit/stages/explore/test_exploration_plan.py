"""The notes of an exploration."""

import pytest

from coevolve.stages.explore.exploration_plan import carry_out, plan
from coevolve.stages.schema import load
from tests import ROOT
from tests.unit.environments.tracker import Secret, Tracker

PARAMS = load(ROOT / "params.yaml")
CONFIG = PARAMS.explore.model_copy(update={"explorations": 8})


@pytest.mark.parametrize(
    ("environment", "said"),
    [(Tracker(), []), (Secret(), ["tools that no exploration reached: 2 of 9 (lost, unlock)"])],
)
def test_tools_that_no_exploration_reached_are_named(environment: Tracker, said: list[str]) -> None:
    config = CONFIG.model_copy(update={"explorations": 200, "guidance": "coverage"})
    planned = plan(environment, environment.tasks("seed"), [], [], [], config, 0, 0)
    found, notes = carry_out(planned, config, PARAMS.policy, None, lambda count: None)  # type: ignore[arg-type]
    assert len(found) > 100 and notes == said
