from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import StopReason, Trajectory
from coevolve.core.task import Task
from coevolve.rollout import Episode
from coevolve.stages.train.groups import Group, gather, rewards, teaches


def group(*scores: float | None) -> Group:
    """A group of these rewards; None is an episode that the environment broke."""
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
