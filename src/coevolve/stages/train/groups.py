"""Play groups of episodes, replace those of equal rewards, and turn groups into the rows that one process trains on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import lcm
from typing import Any

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError
from coevolve.core.records import Attempt
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.rollout import Episode, RolloutRequest

Group = list[Episode]


@dataclass(frozen=True, slots=True)
class Gathered:
    """All groups that the agent ``played``, and those that were ``kept`` for training."""

    kept: list[Group]
    played: list[Group]

    @property
    def dropped(self) -> int:
        """The number of groups that teach nothing."""
        return sum(not teaches(group) for group in self.played)


def requests(
    numbered: Iterable[tuple[int, Task]], size: int, seed: int, iteration: int, step: int
) -> list[RolloutRequest]:
    """``size`` attempts at each task. A task's seeds depend on its number in the step and on no other task."""
    return [
        RolloutRequest(
            task, derive_seed(seed, "train", iteration, step, number, sample), iteration, step, number, sample
        )
        for number, task in numbered
        for sample in range(size)
    ]


def check_first(gathered: Gathered, policy: str) -> None:
    """Say so if the first step teaches nothing. If ``policy`` makes no call at all, raise a CoevolveError."""
    if gathered.dropped < len(gathered.played):
        return
    played = [episode.trajectory for group in gathered.played for episode in group]
    if not any(trajectory.calls for trajectory in played):
        raise CoevolveError(
            f"{policy} made no call in its first {len(played)} episodes, and a policy that never acts learns nothing from rewards; "
            "give it a warm start: set warm.steps in params.yaml, for example to 50 (docs/my-model.md)"
        )
    solved = sum(is_success(trajectory.score) for trajectory in played)
    remedy = "harder tasks or a shorter warm start" if solved else "easier tasks or a longer warm start"
    print(
        f"{policy} solved {solved} of its first {len(played)} episodes, and no group of attempts differs in its rewards, so "
        f"this step teaches nothing; if the next steps look the same, use {remedy}"
    )


def rewards(group: Group) -> list[float | None]:
    """The reward of each episode; None where the environment failed, which is not the agent's fault."""
    return [episode.trajectory.score if episode.trajectory.counts else None for episode in group]


def teaches(group: Group) -> bool:
    """Whether the rewards differ; otherwise every advantage in the group is zero."""
    return len({reward for reward in rewards(group) if reward is not None}) > 1


def attempts(trajectories: Iterable[Trajectory]) -> list[Attempt]:
    """The attempts at each task in each step, without the episodes that the environment failed.

    An attempt without any other episode has size 0.
    """
    scores: dict[tuple[str, int, int], list[float]] = {}
    for trajectory in trajectories:
        counted = scores.setdefault((trajectory.task_id, trajectory.iteration, trajectory.step), [])
        if trajectory.counts:
            counted.append(trajectory.score)
    return [attempt_of(*visit, values) for visit, values in scores.items()]


def gather(
    play: Callable[[Sequence[Task], int], list[Group]],
    tasks: Iterator[Task],
    wanted: int,
    refills: int,
) -> Gathered:
    """Play ``wanted`` groups, then replace those that teach nothing, in up to ``refills`` rounds.

    ``play`` takes tasks and the number of the first group. If the replacements teach nothing either, fewer than ``wanted``
    groups are kept. At least one group is kept, so that there is always a step to take.
    """
    played = play(list(islice(tasks, wanted)), 0)
    kept = [group for group in played if teaches(group)]
    for _ in range(refills):
        more = list(islice(tasks, max(wanted - len(kept), 0)))
        if not more:
            break
        fresh = play(more, len(played))
        played = [*played, *fresh]
        kept.extend(group for group in fresh if teaches(group))
    return Gathered(kept[:wanted] or played[:1], played)


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


def dealt_out(play: PlayNumbered, rank: int, world: int) -> Play:
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
