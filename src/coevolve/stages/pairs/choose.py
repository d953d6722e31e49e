"""Pairs of episodes to prefer by: what is right over how an agent failed, and how it failed closely over how it failed worse."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from coevolve.core.hashing import content_hash
from coevolve.core.records import Pair
from coevolve.core.seeding import generator
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.stages.pairs.config import Pairs

if TYPE_CHECKING:
    from coevolve.stages.pairs.rehearse import Rehearsal

# kinds of pairs: whose the chosen episode is, and who failed the other, the agent in training or the failure agent
EXPERT, OWN = "expert_target", "success_target"
EXPERT_HARD, OWN_HARD = "expert_hard", "success_hard"
AMONG = "failure_failure"  # both failed
KINDS = (EXPERT, OWN, EXPERT_HARD, OWN_HARD, AMONG)


def choose(
    episodes: Sequence[Trajectory],
    references: Mapping[str, Trajectory],
    ranks: Mapping[str, float],
    config: Pairs,
    plan: "Rehearsal",
    hard: Sequence[Trajectory] = (),
) -> list[Pair]:
    """Pairs by task, at most ``config.per_task`` of each: one of its right episodes over one of its failed ones.

    Right are successes among ``episodes`` and, if ``config.expert`` says so, the one in ``references`` (by task). Failed are
    those of ``episodes`` and ``hard`` with a rank (by id of the trajectory), which is at least ``config.margin`` below that of a
    success, 1. A share ``config.hard`` of a task's pairs is with ``hard`` ones; where one sort is short, the other makes up for it.
    Episodes that make the same calls are one, no failure is in two pairs, and none makes the calls of a right one. A task's
    right episodes take turns.
    """
    ours, theirs = by_task(episodes), by_task(hard)
    found = []
    for task in sorted(ours):
        expert = [references[task]] if config.expert and task in references else []
        right = distinct([*expert, *(one for one in ours[task] if one.counts and is_success(one.score))])
        # cut off, the right calls fail too
        close = _failures(theirs.get(task, []), ranks, 1.0 - config.margin, right)
        usual = _failures(ours[task], ranks, 1.0 - config.margin, [*right, *close])
        rng = generator("pairs", plan.seed, plan.iteration, task)
        goods, usuals, closes = (list(some.values()) for some in (right, usual, close))
        for some in (goods, usuals, closes):
            rng.shuffle(some)
        share = max(round(config.per_task * config.hard), config.per_task - len(usuals))
        closes = closes[:share]
        bads = [*closes, *usuals[: config.per_task - len(closes)]]
        for place, bad in enumerate(bads if goods else []):
            good = goods[place % len(goods)]
            kinds = (EXPERT, EXPERT_HARD) if expert and good is expert[0] else (OWN, OWN_HARD)
            found.append(_pair(good, bad, kinds[place < len(closes)], plan.iteration, ranks))
    return found


def contrast(
    failures: Sequence[Trajectory], ranks: Mapping[str, float], config: Pairs, plan: "Rehearsal"
) -> list[Pair]:
    """Pairs by task, at most ``config.per_task`` of each: one of its ``failures`` over another that is ranked ``config.margin``
    or more below it.

    The best goes with the worst, the second best with the second worst and so on, those of one rank in random order. Episodes that
    make the same calls are one, and none is in two pairs.
    """
    found = []
    for task, some in sorted(by_task(failures).items()):
        known = list(_failures(some, ranks, 1.0, {}).values())
        generator("pairs among failures", plan.seed, plan.iteration, task).shuffle(known)
        known.sort(key=lambda one: -ranks[one.trajectory_id])
        for place in range(min(len(known) // 2, config.per_task)):
            better, worse = known[place], known[-1 - place]
            if ranks[worse.trajectory_id] <= ranks[better.trajectory_id] - config.margin:
                found.append(_pair(better, worse, AMONG, plan.iteration, ranks))
    return found


def distinct(episodes: Iterable[Trajectory]) -> dict[str, Trajectory]:
    """By the calls that they make, the first of ``episodes`` that makes them."""
    found: dict[str, Trajectory] = {}
    for one in episodes:
        found.setdefault(content_hash([[call.name, call.arguments] for call in one.calls]), one)
    return found


def by_task(episodes: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    """``episodes`` of each task, in their order."""
    found: dict[str, list[Trajectory]] = {}
    for one in episodes:
        found.setdefault(one.task_id, []).append(one)
    return found


def _failures(
    episodes: Iterable[Trajectory], ranks: Mapping[str, float], most: float, known: Collection[str]
) -> dict[str, Trajectory]:
    """By their calls, those that have a rank, ``most`` or less, and whose calls are not ``known``."""
    far = distinct(one for one in episodes if one.trajectory_id in ranks and ranks[one.trajectory_id] <= most)
    return {calls: one for calls, one in far.items() if calls not in known}


def _pair(good: Trajectory, bad: Trajectory, kind: str, iteration: int, ranks: Mapping[str, float]) -> Pair:
    name = content_hash([good.task_id, iteration, good.trajectory_id, bad.trajectory_id])
    close = ranks[good.trajectory_id] if kind == AMONG else 1.0
    return Pair(
        name, good.task_id, iteration, kind, good.trajectory_id, bad.trajectory_id, ranks[bad.trajectory_id], close
    )
