"""A rehearsal of the tiny policy, as it would play in training, also after a kill; and the pairs that come of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.policies.loading import open_policy
from coevolve.rollout import Limits
from coevolve.stages.pairs.make import Made, make, summary
from coevolve.stages.pairs.rehearse import Rehearsal, rehearse
from tests import ROOT
from tests.stages.train.small import ACTING, CONFIG, PARAMS, WORLD

LIMITS = Limits.of(ACTING)
TASKS = WORLD.tasks("seed")[:16]


def made(folder: Path) -> Made:
    folder.mkdir()
    policy = open_policy(ROOT / "policies/0", ACTING, CONFIG.temperature)
    return make(policy, WORLD, Rehearsal(0, 0, TASKS, [], folder), CONFIG, PARAMS.pairs, LIMITS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("pairs") / "scratch")


def test_right_is_over_wrong_and_everything_is_counted(whole: Made) -> None:
    known = {one.trajectory_id: one for one in [*whole.rehearsals, *whole.references]}
    assert len(whole.rehearsals) == CONFIG.steps * CONFIG.tasks_per_step * CONFIG.group_size
    assert len(whole.references) == len(TASKS)
    for pair in whole.checked.pairs:
        assert is_success(known[pair.chosen].score) and not is_success(known[pair.rejected].score)
    figures = summary(0, whole, "").figures
    assert figures["pairs"] == len(whole.checked.pairs) > 8
    assert sum(value or 0 for name, value in figures.items() if name.startswith("pairs: ")) == len(whole.checked.pairs)
    assert 0.0 < (figures["closeness of failures"] or 0.0) < 1.0


def test_a_killed_rehearsal_plays_only_what_is_missing(whole: Made, tmp_path: Path) -> None:
    policy = open_policy(ROOT / "policies/0", ACTING, CONFIG.temperature)
    plan = Rehearsal(0, 0, TASKS, [], tmp_path)
    counted: list[int] = []

    def interrupted(count: int) -> None:
        counted.append(count)
        if sum(counted) > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rehearse(policy, WORLD, plan, CONFIG, LIMITS, interrupted)
    assert [file.name for file in tmp_path.iterdir()] == ["0.parquet"]
    first = read_trajectories(tmp_path / "0.parquet")
    assert rehearse(policy, WORLD, plan, CONFIG, LIMITS, lambda count: None) == whole.rehearsals
    assert list(whole.rehearsals[: len(first)]) == first


def test_without_references_there_is_one_line(tmp_path: Path) -> None:
    bare = [replace(task, reference=[[]]) for task in TASKS]
    policy = open_policy(ROOT / "policies/0", ACTING, CONFIG.temperature)
    with pytest.raises(CoevolveError, match="needs references that solve their tasks when they are replayed"):
        make(policy, Miniworld(), Rehearsal(0, 0, bare, [], tmp_path), CONFIG, PARAMS.pairs, LIMITS)
