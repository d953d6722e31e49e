"""Pairs of episodes to prefer by: what is right over how the agent failed."""

from collections.abc import Iterable, Mapping, Sequence

from coevolve.core.hashing import content_hash
from coevolve.core.params import Pairs
from coevolve.core.records import Pair, Trajectory
from coevolve.core.seeding import generator
from coevolve.core.success import is_success

LEARNERS = frozenset({"dpo", "sft"})  # those that learn from pairs; for others none are made
EXPERT, OWN = (
    "expert_target",
    "success_target",
)  # kinds: whose the chosen episode is; the agent in training failed the other


def choose(
    episodes: Sequence[Trajectory],
    references: Mapping[str, Trajectory],
    ranks: Mapping[str, float],
    config: Pairs,
    seed: int,
    iteration: int,
) -> list[Pair]:
    """Pairs by task, at most ``config.per_task`` of each: one of its right episodes over one of its failed ones.

    Right are successes among ``episodes`` and, if ``config.expert`` says so, the one in ``references`` (by task). Failed are
    those with a rank (by id of the trajectory), which is at least ``config.margin`` below that of a success, 1. Episodes that
    make the same calls are one, no failure is in two pairs, and none makes the calls of a right one. A task's right episodes take turns.
    """
    by_task: dict[str, list[Trajectory]] = {}
    for one in episodes:
        by_task.setdefault(one.task_id, []).append(one)
    found = []
    for task in sorted(by_task):
        expert = [references[task]] if config.expert and task in references else []
        right = distinct([*expert, *(one for one in by_task[task] if one.counts and is_success(one.score))])
        rank = {one.trajectory_id: ranks[one.trajectory_id] for one in by_task[task] if one.trajectory_id in ranks}
        far = distinct(one for one in by_task[task] if rank.get(one.trajectory_id, 1.0) <= 1.0 - config.margin)
        goods = list(right.values())
        bads = [one for calls, one in far.items() if calls not in right]  # cut off, the right calls fail too
        rng = generator("pairs", seed, iteration, task)
        rng.shuffle(goods)
        rng.shuffle(bads)
        for place, bad in enumerate(bads[: config.per_task] if goods else []):
            good = goods[place % len(goods)]
            kind = EXPERT if expert and good is expert[0] else OWN
            name = content_hash([task, iteration, good.trajectory_id, bad.trajectory_id])
            found.append(
                Pair(name, task, iteration, kind, good.trajectory_id, bad.trajectory_id, rank[bad.trajectory_id])
            )
    return found


def distinct(episodes: Iterable[Trajectory]) -> dict[str, Trajectory]:
    """By the calls that they make, the first of ``episodes`` that makes them."""
    found: dict[str, Trajectory] = {}
    for one in episodes:
        found.setdefault(content_hash([[call.name, call.arguments] for call in one.calls]), one)
    return found
