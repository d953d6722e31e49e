"""The rows that each process trains on: every row once, equally many per process, in whole groups."""

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.policies.policy import Reply
from coevolve.rollout import Episode
from coevolve.stages.train.groups import columns, deal, row

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
    shares = [deal(made, rank, world, passes, each * size, END) for rank in range(world)]
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
