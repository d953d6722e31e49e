"""A warm start on the committed tiny policy: the imitated episodes, their mistakes, and a killed run."""

from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.trajectories import write_trajectories
from coevolve.environments.knowledge import REPLAYED
from coevolve.environments.miniworld.miniworld_environment import MUTATING
from coevolve.environments.registry import make
from coevolve.rollout import Limits
from coevolve.stages.base.noisy_demonstrator import Unreliable, chances
from coevolve.stages.train.learner import Job, Shared
from coevolve.stages.warm.config import Warm
from coevolve.stages.warm.warm_start import Demonstrations, demonstrations, learn, unreliable
from tests import ROOT
from tests.unit.stages.train.small import ACTING, CONFIG, PARAMS, WORLD

LIMITS = Limits.of(ACTING)
OWN = PARAMS.warm.model_copy(update={"steps": 3, "unreliable_steps": 2, "batch": 4, "tasks": 16, "split": "broad"})


def warm(folder: Path, found: Demonstrations, own: Warm = OWN, log: object = None) -> None:
    job = Job(
        0, 7, ROOT / "policies/base", [], folder / "policy", folder, folder, folder / "scratch", ROOT / "policies/base"
    )
    learn(own, Shared(CONFIG.model_copy(update={"save_steps": 1}), ACTING, PARAMS.launch), found, job, log)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found() -> Demonstrations:
    return demonstrations(OWN, WORLD, LIMITS, 0)


def test_references_are_imitated_first_and_then_unreliable_episodes(found: Demonstrations) -> None:
    assert len(found.right) == len(found.unreliable) == OWN.tasks
    assert all(is_success(one.score) for one in found.right)
    failed = [one for one in found.unreliable if not is_success(one.score)]
    assert len(failed) > OWN.tasks / 4
    by_task = {one.task_id: one for one in found.right}
    for one in found.unreliable:  # what it does not spoil it does as the reference does
        named = {call.name for call in by_task[one.task_id].calls}
        assert {call.name for call in one.calls} - named <= MUTATING


def test_each_episode_has_its_own_mistakes() -> None:
    """Episodes whose references differ only in values do not all fail in the same way."""
    own = OWN.model_copy(update={"unreliability": [0.5, 0.5], "tasks": 64, "split": "seed"})
    several = demonstrations(own, WORLD, LIMITS, 0)
    asked = {one.task_id: tuple(call.name for call in one.calls) for one in several.right}
    made: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for one in several.unreliable:
        made.setdefault(asked[one.task_id], []).append(tuple(call.name for call in one.calls))
    often = [found for names, found in made.items() if len(found) > 4 and MUTATING.intersection(names)]
    assert often and all(len(set(found)) > 1 for found in often)


def test_mistakes_affect_changing_tools_and_use_look_alikes() -> None:
    tasks = WORLD.tasks("broad")[:REPLAYED]
    errs = unreliable(WORLD, tasks, 1.0, 1.0, 0)
    assert set(errs.chances) <= MUTATING | {"unlock"} and len(errs.chances) > 5
    assert "cancel_event" in errs.look_alikes["accept_event"]
    assert all(name not in others for name, others in errs.look_alikes.items())


def test_chances_are_drawn_per_tool() -> None:
    assert chances(["a", "b"], 0.2, 0.4, 0) == {**chances(["b"], 0.2, 0.4, 0), **chances(["a"], 0.2, 0.4, 0)}
    assert all(0.2 <= one <= 0.4 for one in chances("abcdef", 0.2, 0.4, 1).values())
    assert Unreliable({}, {}).chances == {}


def test_successful_episodes_of_a_file_are_imitated(found: Demonstrations, tmp_path: Path) -> None:
    file = tmp_path / "mine.parquet"
    write_trajectories(file, [*found.right[:3], *(one for one in found.unreliable if not is_success(one.score))])
    mine = demonstrations(OWN.model_copy(update={"demonstrations": str(file)}), WORLD, LIMITS, 0)
    assert [one.trajectory_id for one in mine.right] == [one.trajectory_id for one in found.right[:3]]
    assert mine.unreliable == []
    write_trajectories(file, [one for one in found.unreliable if not is_success(one.score)])
    with pytest.raises(CoevolveError, match=r"warm.demonstrations: .*mine.parquet has no episode that succeeded"):
        demonstrations(OWN.model_copy(update={"demonstrations": str(file)}), WORLD, LIMITS, 0)


def test_impossible_warm_start_is_an_error(
    found: Demonstrations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CoevolveError, match=r"has no split 'nowhere'; expected one of: seed"):
        demonstrations(OWN.model_copy(update={"split": "nowhere"}), WORLD, LIMITS, 0)
    world = make("miniworld")
    monkeypatch.setattr(world, "reference", lambda task: [])
    with pytest.raises(CoevolveError, match=r"no task of miniworld's split 'broad' has a reference to imitate"):
        demonstrations(OWN, world, LIMITS, 0)
    with pytest.raises(CoevolveError, match=r"none of the 16 references .* succeeds within policy.max_turns \(1\)"):
        demonstrations(OWN, WORLD, replace(LIMITS, max_turns=1), 0)
    narrow = ACTING.model_copy(update={"episode_tokens": 8})
    job = Job(
        0, 7, ROOT / "policies/base", [], tmp_path / "p", tmp_path, tmp_path, tmp_path / "s", ROOT / "policies/base"
    )
    with pytest.raises(
        CoevolveError, match=r"none of 16 demonstrations fits into policy.episode_tokens \(8\): the shortest has \d+"
    ):
        learn(OWN, Shared(CONFIG, narrow, PARAMS.launch), found, job)
