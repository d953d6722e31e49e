"""Which environment of a mixture explores."""

import pytest

from coevolve.environments.registry import make
from coevolve.stages.explore.exploration_plan import plan
from coevolve.stages.schema import load
from tests import ROOT

CONFIG = load(ROOT / "params.yaml").explore.model_copy(update={"explorations": 8})


@pytest.mark.parametrize("guidance", ["signals", "random", "coverage", "generator"])
def test_environment_without_tasks_explores_nothing(guidance: str) -> None:
    both, config = make("0.5*miniworld+0.5*sql"), CONFIG.model_copy(update={"guidance": guidance})
    tasks = make("miniworld").tasks("seed")[:4]
    (only,) = plan(both, tasks, [], [], [], config, 0, 0)
    assert only.environment.name == "miniworld"
    assert len(only.requests) == (0 if guidance == "generator" else 4)
