"""Turn groups of episodes into the rows that one process trains on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

from coevolve.core.task import Task
from coevolve.rollout import Episode
from coevolve.stages.train.groups import Group, rewards

PlayNumbered = Callable[[Sequence[tuple[int, Task]]], list[Group]]  # takes pairs of a group's number and its task
Play = Callable[[Sequence[Task], int], list[Group]]  # takes tasks and the number of the first group


@dataclass(frozen=True, slots=True)
class Row:
    """A row of TRL's batch.

    ``mask`` is 1 where the policy wrote and 0 where the environment did. ``logprobs`` are those of sampling, 0 where the
    environment wrote. A row whose reward is None does not enter its group's advantages.
    """

    prompt: list[int]
    completion: list[int]
    mask: list[int]
    logprobs: list[float]
    reward: float | None


def row(episode: Episode, reward: float | None, end: int) -> Row:
    """An episode as a row, up to the agent's last token: an observation that left no room for a reply may have any length.

    TRL accepts no empty completion, so an empty one becomes a masked ``end`` token.
    """
    replies = episode.replies
    prompt = replies[0].prompt_ids if replies else [end]
    completion: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for number, reply in enumerate(replies):
        observed = reply.prompt_ids if number and reply.token_ids else []
        completion += observed + reply.token_ids
        mask += [0] * len(observed) + [1] * len(reply.token_ids)
        logprobs += [0.0] * len(observed) + reply.logprobs
    return Row(prompt, completion, mask, logprobs, reward) if completion else Row(prompt, [end], [0], [0.0], reward)


def deal(groups: Sequence[Group], rank: int, world: int, passes: int, size: int, end: int) -> list[Row]:
    """The rows of process ``rank``. All ``world`` processes and all ``passes`` get equally many, ``size`` in several.

    Over all processes, groups stay whole and in order. Masked rows in separate groups fill up the last passes. They weigh
    nothing in the loss, which is a mean over tokens (DAPO, arXiv 2503.14476).
    """
    rows = [
        row(episode, reward, end) for group in groups for episode, reward in zip(group, rewards(group), strict=True)
    ]
    # where the rows of a pass are whole groups, each prompt is computed in one pass
    even = lcm(len(groups[0]), world) if passes == 1 else size * world * passes
    rows += [Row([end], [end], [0], [0.0], None)] * (-len(rows) % even)
    share = len(rows) // world
    return rows[rank * share : (rank + 1) * share]


def columns(rows: Sequence[Row], logprobs: bool) -> dict[str, Any]:
    """The rows as TRL's ``rollout_func`` returns them."""
    return {
        "prompt_ids": [row.prompt for row in rows],
        "completion_ids": [row.completion for row in rows],
        "env_mask": [row.mask for row in rows],
        "logprobs": [row.logprobs for row in rows] if logprobs else None,
        "episode_reward": [row.reward for row in rows],
    }


def shared(play: PlayNumbered, rank: int, world: int) -> Play:
    """Share the playing of groups among ``world`` processes; every process gets all groups, in order.

    A group's number, and so its seeds, does not depend on the number of processes.
    """

    def play_all(tasks: Sequence[Task], first: int) -> list[Group]:
        share = list(enumerate(tasks, first))[rank::world]
        groups = list(zip((number for number, _ in share), play(share) if share else [], strict=True))
        if world > 1:
            from accelerate.utils import gather_object

            groups = sorted(gather_object(groups), key=lambda pair: pair[0])
        return [group for _, group in groups]

    return play_all
