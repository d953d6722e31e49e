"""Evaluation in a mixture of environments."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.environments.mixture import Mixture
from coevolve.environments.registry import make
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import evaluate
from tests.unit.stages.evaluate.test_evaluation import CONFIG


def test_environment_of_a_mixture_that_always_fails_is_an_error(tmp_path: Path) -> None:
    class Absent(Miniworld):
        def open(self) -> MiniworldSession:
            raise OSError("no session")

    shares = {"miniworld": 0.5, "sql": 0.5}
    whole = Mixture({"miniworld": Absent(), "sql": make("sql")}, shares)
    panels = {"test": whole.tasks("test")[:8]}
    with pytest.raises(CoevolveError, match=r"miniworld failed in all 4 episodes of test \(.*no session.*: 4\)"):
        evaluate(ReferencePolicy(whole), whole, panels, Limits(16, 512, 64, 30.0), CONFIG, 0, tmp_path)
    assert not list(tmp_path.iterdir())
