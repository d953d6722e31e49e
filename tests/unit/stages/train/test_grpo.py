"""What GRPO trains on: the groups that teach, and the rows of each process, every row once, equally many per process."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.task import CallOutcome, Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.policies.policy import Reply
from coevolve.rollout import Episode
from coevolve.stages.train.groups import Gathered, Group, teaches
from coevolve.stages.train.grpo import attempted, check_first, columns, deal, gather, row
from tests.unit.stages.train.test_groups import group

END = 0


def episode(number: int, reward: float = 0.0, replies: int = 1) -> Episode:
    said = [Reply("", [], [10 + turn], [number, END], [-0.5, -0.25]) for turn in range(replies)]
    trajectory = Trajectory(str(number), "t", 0, 0, 0, 0, [], [], reward, StopReason.DONE)
    return Episode(trajectory, said, 0.0)


def test_environment_tokens_are_masked_and_have_no_log_probability() -> None:
    made = row(episode(7, replies=2), 1.0, END)
    assert made.prompt == [10]
    assert made.completion == [7, END, 11, 7, END]
    assert made.mask == [1, 1, 0, 1, 1]
    assert made.logprobs == [-0.5, -0.25, 0.0, -0.5, -0.25]
    empty = row(episode(7, replies=0), 1.0, END)
    assert (empty.prompt, empty.completion, empty.mask, empty.logprobs) == ([END], [END], [0], [0.0])


def test_observation_without_room_for_a_reply_is_not_in_the_row() -> None:
    whole = episode(7, replies=2)
    cut = [*whole.replies, Reply("", prompt_ids=[12] * 3000, truncated=True)]
    assert row(Episode(whole.trajectory, cut, 0.0), 1.0, END) == row(whole, 1.0, END)
    nothing = [Reply("", prompt_ids=[12] * 9, truncated=True)]
    assert row(Episode(whole.trajectory, nothing, 0.0), 1.0, END).completion == [END]


@given(st.data(), st.sampled_from([2, 3, 4, 8]), st.integers(1, 4), st.integers(1, 4), st.integers(1, 2))
def test_every_row_is_dealt_once_and_evenly(data: st.DataObject, size: int, world: int, passes: int, each: int) -> None:
    """With ``each`` groups in a pass; some of the groups of a step may be missing."""
    groups = data.draw(st.integers(1, world * passes * each))
    made = [[episode(100 + group * size + sample) for sample in range(size)] for group in range(groups)]
    played = attempted(made, END)
    shares = [deal(played, size, rank, world, passes, each * size, END) for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    assert len(shares[0]) == passes * each * size or passes == 1
    rows = [one for share in shares for one in share]
    assert len(rows) % size == 0
    assert [one.completion[0] for one in rows[: groups * size]] == list(range(100, 100 + groups * size))
    for blank in rows[groups * size :]:
        assert not any(blank.mask) and blank.reward is None
    assert len(rows) < groups * size + size * world * passes * size
    wanted = {"prompt_ids", "completion_ids", "env_mask", "logprobs", "episode_reward"}
    assert set(columns(rows, logprobs=True)) == wanted


def tasks(count: int) -> list[Task]:
    return [Task.create("miniworld", "seed", [str(number)], {}, []) for number in range(count)]


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
