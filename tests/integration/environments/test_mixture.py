"""Two environments as one: each task is played in its own environment."""

from collections import Counter

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import ToolCall
from coevolve.environments.mixture import Mixture, parts, shares_of, split
from coevolve.environments.registry import make
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests.waiting import PATIENCE

TEXT = "0.75*miniworld+0.25*sql"
BOTH = make(TEXT)
LIMITS = Limits(30, 10**6, 64, PATIENCE)


def test_parts_are_the_named_environments() -> None:
    assert isinstance(BOTH, Mixture) and BOTH.name == TEXT
    assert shares_of(BOTH) == {"miniworld": 0.75, "sql": 0.25} and shares_of(make("sql")) == {"sql": 1.0}
    assert [(part.environment.name, count) for part, count in split(BOTH, 10)] == [("miniworld", 8), ("sql", 2)]
    assert [part.environment.name for part in parts(make("sql"))] == ["sql"]
    for name, one in BOTH.members.items():
        assert one.fingerprint in BOTH.fingerprint
        assert set(one.sources().items()) <= set(BOTH.sources().items()), name


def test_first_tasks_of_a_split_are_in_proportion_and_none_is_lost() -> None:
    every = BOTH.tasks("seed")
    assert Counter(task.environment for task in every[:64]) == {"miniworld": 48, "sql": 16}
    assert {task.task_id for task in every} == {
        task.task_id for name in BOTH.members for task in make(name).tasks("seed")
    }
    with_split = {name for name in BOTH.members if "broad" in make(name).more_splits}
    assert with_split == {"miniworld"} and "broad" not in BOTH.more_splits
    with pytest.raises(CoevolveError, match="has no split 'broad'"):
        BOTH.tasks("broad")


def test_task_is_played_in_its_own_environment_with_its_tools() -> None:
    tasks = [*BOTH.tasks("validation")[:12]]
    played = rollout(ReferencePolicy(BOTH), BOTH, [RolloutRequest(task, 0) for task in tasks], LIMITS)
    assert all(is_success(one.trajectory.score) for one in played)
    session = BOTH.open()
    for task in tasks:
        offered = {tool["function"]["name"] for tool in session.reset(task).tools or []}
        assert offered == {tool["function"]["name"] for tool in make(task.environment).open().reset(task).tools or []}
        assert BOTH.category(task).startswith(f"{task.environment}: ")
    session.close()


def test_task_or_environment_outside_the_mixture_is_an_error() -> None:
    session = BOTH.open()
    with pytest.raises(CoevolveError, match="no task was started"):
        session.step(ToolCall("anything"))
    with pytest.raises(CoevolveError, match="belongs to environment 'bfcl_single', expected one of: miniworld, sql"):
        session.reset(make("bfcl_single").tasks("seed")[0])
    with pytest.raises(CoevolveError, match="environment 'nowhere' is unknown"):
        make("0.5*miniworld+0.5*nowhere")
    session.close()
