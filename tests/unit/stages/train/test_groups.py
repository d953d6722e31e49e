import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.records import Attempt
from coevolve.core.task import CallOutcome, Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.rollout import Episode
from coevolve.stages.train.groups import Gathered, Group, attempts, check_first, gather, rewards, teaches
from coevolve.stages.train.stage import PREFERENCE, summary


def group(*scores: float | None) -> Group:
    """A group with these rewards. None is an episode that the environment failed."""
    return [
        Episode(
            Trajectory(
                "x", "t", 0, 0, 0, 0, [], [], score or 0.0,
                StopReason.ENVIRONMENT_FAILED if score is None else StopReason.DONE,
            ),
            [],
            0.0,
        )
        for score in scores
    ]  # fmt: skip


def tasks(count: int) -> list[Task]:
    return [Task.create("miniworld", "seed", [str(number)], {}, []) for number in range(count)]


def test_equal_rewards_teach_nothing() -> None:
    assert not teaches(group(1.0, 1.0))
    assert not teaches(group(0.0, None))
    assert teaches(group(0.0, 0.2))
    assert rewards(group(0.5, None)) == [0.5, None]


@given(st.lists(st.booleans(), min_size=20, max_size=20), st.integers(1, 6), st.integers(0, 3))
def test_groups_that_teach_nothing_are_replaced_within_bounds(mixed: list[bool], wanted: int, refills: int) -> None:
    played: list[str] = []

    def play(chosen: Sequence[Task], first: int) -> list[Group]:
        assert first == len(played)
        played.extend(task.turns[0] for task in chosen)
        return [group(0.0, 1.0) if mixed[int(task.turns[0])] else group(1.0, 1.0) for task in chosen]

    found = gather(play, iter(tasks(20)), wanted, refills)
    teaching = [one for one in found.played if teaches(one)]
    assert found.kept == (teaching or found.played[:1])
    assert len(teaching) <= wanted
    assert len(played) == len(set(played)) <= wanted * (1 + refills)
    if len(teaching) < wanted:
        assert len(played) == 20 or refills == 0 or len(played) > wanted
    assert found.dropped == len(found.played) - len(teaching)


def test_attempts_are_grouped_by_task_and_step_without_failed_episodes() -> None:
    def episode(task: str, step: int, number: int, score: float | None) -> Trajectory:
        stop = StopReason.DONE if score is not None else StopReason.ENVIRONMENT_FAILED
        return Trajectory(f"{number}", task, 1, step, number, 0, [], [], score or 0.0, stop)

    played = [
        *(episode("a", 0, 0, score) for score in (1.0, 0.0)),
        *(episode("b", 0, 1, score) for score in (None, None)),
        *(episode("a", 0, 2, score) for score in (0.25, None)),  # a further group of the same task
        *(episode("a", 1, 0, score) for score in (0.5, 0.5)),
    ]
    failed = Attempt("b", 1, 0, 0.0, 0)
    assert attempts(played) == [Attempt("a", 1, 0, 1.25 / 3, 3, 1), failed, Attempt("a", 1, 1, 0.5, 2, 2)]


def test_first_step_that_teaches_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    silent, mixed = group(0.0, 0.0), group(0.0, 0.2)
    with pytest.raises(CoevolveError, match=r"policies/0 made no call in its first 4 episodes.* warm.steps"):
        check_first(Gathered([], [silent, silent]), "policies/0")
    check_first(Gathered([mixed], [silent, mixed]), "policies/0")  # it is paid for what it says
    assert not capsys.readouterr().out
    for scores, found in (
        ((0.0, 0.0), "solved 0 of its first 4 .* easier"),
        ((1.0, 1.0), "solved 4 of its first 4 .* harder"),
    ):
        acting = group(*scores)
        acting[0].trajectory.calls.append(CallOutcome("lock", {}, False, "error"))
        check_first(Gathered([], [acting, acting]), "policies/0")
        assert re.search(found, capsys.readouterr().out)


STEP = {"groups": 5.0, "groups_without_variance": 2.0, "tokens": 30.0, "success": 0.25}


def test_costs_add_up_and_figures_of_other_learners_are_absent() -> None:
    found = summary(1, [STEP, {**STEP, "success": 0.5}], 8)
    assert found.figures["training episodes"] == 80 and found.figures["share of groups that teach nothing"] == 0.4
    assert (found.figures["success at the first step"], found.figures["success at the last step"]) == (0.25, 0.5)
    assert not set(PREFERENCE.values()) & set(found.figures)


def test_preference_figures_are_those_of_the_last_step() -> None:
    told = {"margin": 0.5, "accuracy": 0.9, "chosen": -0.1, "rejected": -0.6}
    found = summary(0, [{**STEP, **dict.fromkeys(told, 0.0)}, {**STEP, **told}], 8)
    assert {name: found.figures[title] for name, title in PREFERENCE.items()} == told
