"""From groups of episodes to the rows that one process trains on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

from coevolve.core.task import Task
from coevolve.rollout import Episode
from coevolve.stages.train.groups import Group, rewards

PlayNumbered = Callable[[Sequence[tuple[int, Task]]], list[Group]]  # of (number of the group, task)
Play = Callable[[Sequence[Task], int], list[Group]]  # of tasks, and the number of the first group


@dataclass(frozen=True, slots=True)
class Row:
    """A row of TRL's batch. ``mask`` is 1 where the policy wrote, 0 where the environment did; ``logprobs`` are those of
    sampling (0 where the environment wrote). A reward of None is left out of its group's advantages.
    """

    prompt: list[int]
    completion: list[int]
    mask: list[int]
    logprobs: list[float]
    reward: float | None


def row(episode: Episode, reward: float | None, end: int) -> Row:
    """An episode as a row; TRL wants no completion empty, so one that is gets a masked ``end`` token."""
    replies = episode.replies
    prompt = replies[0].prompt_ids if replies else [end]
    completion: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for number, reply in enumerate(replies):
        heard = reply.prompt_ids if number else []
        completion += heard + reply.token_ids
        mask += [0] * len(heard) + [1] * len(reply.token_ids)
        logprobs += [0.0] * len(heard) + reply.logprobs
    return Row(prompt, completion, mask, logprobs, reward) if completion else Row(prompt, [end], [0], [0.0], reward)


def deal(groups: Sequence[Group], rank: int, world: int, passes: int, end: int) -> list[Row]:
    """The rows of process ``rank``: as many for every one of ``world`` processes, and for every one of ``passes`` passes.

    Groups stay in one piece over all processes, in their order. Where the rows do not come out even, masked rows are
    added, in groups of their own: they weigh nothing in the loss, which is a mean over tokens (DAPO, arXiv 2503.14476).
    """
    rows = [
        row(episode, reward, end) for group in groups for episode, reward in zip(group, rewards(group), strict=True)
    ]
    even = lcm(len(groups[0]), world * passes)
    rows += [Row([end], [end], [0], [0.0], None)] * (-len(rows) % even)
    share = len(rows) // world
    return rows[rank * share : (rank + 1) * share]


def columns(rows: Sequence[Row], logprobs: bool) -> dict[str, Any]:
    """The rows as TRL's ``rollout_func`` returns them."""
    return {
        "prompt_ids": [one.prompt for one in rows],
        "completion_ids": [one.completion for one in rows],
        "env_mask": [one.mask for one in rows],
        "logprobs": [one.logprobs for one in rows] if logprobs else None,
        "episode_reward": [one.reward for one in rows],
    }


def shared(play: PlayNumbered, rank: int, world: int) -> Play:
    """Groups for tasks by ``world`` processes, each playing a share; every process gets the groups of all, in order.

    A group's number, and so its seeds, does not depend on how many processes there are.
    """

    def play_all(tasks: Sequence[Task], first: int) -> list[Group]:
        numbered = [(first + place, task) for place, task in enumerate(tasks)]
        mine = numbered[rank::world]
        groups = list(zip((number for number, _ in mine), play(mine) if mine else [], strict=True))
        if world > 1:
            from accelerate.utils import gather_object

            groups = sorted(gather_object(groups), key=lambda pair: pair[0])
        return [group for _, group in groups]

    return play_all
