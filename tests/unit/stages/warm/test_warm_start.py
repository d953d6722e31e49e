"""A warm start on the committed tiny policy: the imitated episodes."""

from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.trajectories import write_trajectories
from coevolve.environments.registry import make
from coevolve.rollout import Limits
from coevolve.stages.train.learner import Job, Shared
from coevolve.stages.warm.config import Warm
from coevolve.stages.warm.warm_start import Demonstrations, demonstrations, divided, learn
from tests import POLICY
from tests.unit.stages.train.small import ACTING, CONFIG, PARAMS, WORLD

LIMITS = Limits.of(ACTING)
OWN = PARAMS.warm.model_copy(update={"steps": 5, "until": None, "batch": 4, "tasks": 16, "split": "broad"})


def warm(folder: Path, found: Demonstrations, own: Warm = OWN, log: object = None, able: object = None) -> int:
    """Returns the steps."""
    job = Job(0, 7, POLICY, [], folder / "policy", folder, folder, folder / "scratch", POLICY)
    shared = Shared(CONFIG.model_copy(update={"save_steps": 1}), ACTING, PARAMS.launch)
    return learn(own, shared, found, job, log, able)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found() -> Demonstrations:
    return demonstrations(OWN, WORLD, LIMITS)


def test_references_are_imitated_without_those_held_out(found: Demonstrations) -> None:
    assert len(found) == OWN.tasks and all(is_success(one.score) for one, _ in found)
    fewer = demonstrations(OWN.model_copy(update={"until": 0.5}), WORLD, LIMITS)
    _, held = divided(WORLD, "broad", OWN.tasks)
    assert {one.task_id for one, _ in fewer} == {one.task_id for one, _ in found} - {one.task_id for one in held}
    assert len(fewer) < len(found)


def test_successful_episodes_of_a_file_are_imitated(found: Demonstrations, tmp_path: Path) -> None:
    file = tmp_path / "mine.parquet"
    right = [one for one, _ in found]
    failed = [replace(one, score=0.0) for one in right[3:]]
    write_trajectories(file, [*right[:3], *failed])
    mine = demonstrations(OWN.model_copy(update={"demonstrations": str(file)}), WORLD, LIMITS)
    assert [one.trajectory_id for one, _ in mine] == [one.trajectory_id for one in right[:3]]
    write_trajectories(file, failed)
    with pytest.raises(CoevolveError, match=r"warm.demonstrations: .*mine.parquet has no episode that succeeded"):
        demonstrations(OWN.model_copy(update={"demonstrations": str(file)}), WORLD, LIMITS)


def test_impossible_warm_start_is_an_error(
    found: Demonstrations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CoevolveError, match=r"has no split 'nowhere'; expected one of: seed"):
        demonstrations(OWN.model_copy(update={"split": "nowhere"}), WORLD, LIMITS)
    world = make("miniworld")
    monkeypatch.setattr(world, "reference", lambda task: [])
    with pytest.raises(CoevolveError, match=r"no task of miniworld's split 'broad' has a reference to imitate"):
        demonstrations(OWN, world, LIMITS)
    with pytest.raises(
        CoevolveError,
        match=r"none of the 16 references .* succeeds within policy.max_turns \(1\); the first: it ends with max_turns and",
    ):
        demonstrations(OWN, WORLD, replace(LIMITS, max_turns=1))
    narrow = ACTING.model_copy(update={"episode_tokens": 8})
    job = Job(0, 7, POLICY, [], tmp_path / "p", tmp_path, tmp_path, tmp_path / "s", POLICY)
    with pytest.raises(
        CoevolveError, match=r"none of 16 demonstrations fits into policy.episode_tokens \(8\): the shortest has \d+"
    ):
        learn(OWN, Shared(CONFIG, narrow, PARAMS.launch), found, job)
