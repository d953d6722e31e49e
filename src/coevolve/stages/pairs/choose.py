"""Choose preference pairs: a success over a failure, or a failure close to success over a worse one.

The check by Great Expectations is the last gate before training.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from coevolve.core.expectations import Suites, Wanted, among, between, hashed, quarantined
from coevolve.core.hashing import content_hash
from coevolve.core.outcomes import by_task
from coevolve.core.records import Pair
from coevolve.core.seeding import rng_for
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.stages.pairs.config import Pairs

# kinds of pairs: the player of the chosen episode, and of the failed one (the agent in training or the failure agent)
EXPERT, OWN = "expert_target", "success_target"
EXPERT_HARD, OWN_HARD = "expert_hard", "success_hard"
AMONG = "failure_failure"  # both failed


def choose(
    episodes: Sequence[Trajectory],
    references: Mapping[str, Trajectory],
    ranks: Mapping[str, float],
    config: Pairs,
    seed: int,
    iteration: int,
    hard: Sequence[Trajectory] = (),
) -> list[Pair]:
    """Pairs of a success over a failure at the same task, at most ``config.per_task`` for each task.

    Successes come from ``episodes`` and, if ``config.expert`` is set, from ``references`` (by task). Failures come from
    ``episodes`` and ``hard``; they need a rank (by trajectory id) at least ``config.margin`` below 1, the rank of a success.
    A share ``config.hard`` of a task's pairs takes ``hard`` failures; if one sort of failure is short, the other fills up.
    Episodes with the same calls count as one, and each failure is in one pair at most. A failure with the calls of a success
    is in none. The successes of a task take turns.
    """
    by_agent, by_failure_agent = by_task(episodes), by_task(hard)
    pairs = []
    for task in sorted(by_agent):
        expert = [references[task]] if config.expert and task in references else []
        successes = (episode for episode in by_agent[task] if episode.counts and is_success(episode.score))
        right = distinct([*expert, *successes])
        # an episode that was cut off can fail with the calls of a success
        close = _failures(by_failure_agent.get(task, []), ranks, 1.0 - config.margin, right)
        usual = _failures(by_agent[task], ranks, 1.0 - config.margin, [*right, *close])
        rng = rng_for("pairs", seed, iteration, task)
        chosen, usual_failures, hard_failures = (list(group.values()) for group in (right, usual, close))
        for shuffled in (chosen, usual_failures, hard_failures):
            rng.shuffle(shuffled)
        share = max(round(config.per_task * config.hard), config.per_task - len(usual_failures))
        hard_failures = hard_failures[:share]
        failures = [*hard_failures, *usual_failures[: config.per_task - len(hard_failures)]]
        for number, failure in enumerate(failures if chosen else []):
            success = chosen[number % len(chosen)]
            kinds = (EXPERT, EXPERT_HARD) if expert and success is expert[0] else (OWN, OWN_HARD)
            pairs.append(_pair(success, failure, kinds[number < len(hard_failures)], iteration, ranks))
    return pairs


def contrast(
    failures: Sequence[Trajectory], ranks: Mapping[str, float], config: Pairs, seed: int, iteration: int
) -> list[Pair]:
    """Pairs of a failure over another at the same task, ranked ``config.margin`` or more below; at most ``config.per_task``.

    The best failure is paired with the worst, the second best with the second worst and so on; ties are in random order.
    Episodes with the same calls count as one, and each failure is in one pair at most.
    """
    pairs = []
    for task, episodes in sorted(by_task(failures).items()):
        ordered = list(_failures(episodes, ranks, 1.0, {}).values())
        rng_for("pairs among failures", seed, iteration, task).shuffle(ordered)
        ordered.sort(key=lambda failure: -ranks[failure.trajectory_id])
        for number in range(min(len(ordered) // 2, config.per_task)):
            better, worse = ordered[number], ordered[-1 - number]
            if ranks[worse.trajectory_id] <= ranks[better.trajectory_id] - config.margin:
                pairs.append(_pair(better, worse, AMONG, iteration, ranks))
    return pairs


EXPECTATIONS: Wanted = {
    "id is a content hash": hashed("pair_id"),
    "is no copy": among("copy", False),
    "both episodes exist": among("episodes", 2),
    "both episodes are of the pair's task": among("of_its_task", True),
    # training learns from assistant messages: if they outnumber the replies, the environment wrote some of them
    "the agent wrote every assistant message": among("own_words", True),
    "its kind is known": among("kind", EXPERT, OWN, EXPERT_HARD, OWN_HARD, AMONG),
    "the chosen episode succeeds, except in pairs of two failures": among("chosen_is_right", True),
    "the rejected one fails": among("rejected_succeeds", False),
    "their calls differ": among("same_calls", False),
    "the rejected one has a rank": between("closeness", 0.0, 1.0),
    "the chosen one has a rank": between("chosen_closeness", 0.0, 1.0),
    "the rejected one is far enough from the chosen": among("far", True),
}


def check(
    pairs: Sequence[Pair], episodes: Iterable[Trajectory], margin: float
) -> tuple[list[Pair], list[dict[str, Any]]]:
    """The ``pairs`` of ``episodes`` that meet the expectations, and the others, each with those that it breaks."""
    if not pairs:
        return [], []
    known, seen, rows = {episode.trajectory_id: episode for episode in episodes}, set(), []
    for pair in pairs:
        both = [known[name] for name in (pair.chosen, pair.rejected) if name in known]
        right = {episode.trajectory_id: is_success(episode.score) for episode in both}
        facts = {
            "copy": (pair.chosen, pair.rejected) in seen,
            "episodes": len(both),
            "of_its_task": all(episode.task_id == pair.task_id for episode in both),
            "own_words": all(
                sum(message["role"] == "assistant" for message in episode.messages) == len(episode.tokens)
                for episode in both
            ),
            "chosen_is_right": right.get(pair.chosen) is (pair.kind != AMONG),
            "rejected_succeeds": right.get(pair.rejected, False),
            "same_calls": len(both) == 2 and len(distinct(both)) == 1,
            "far": pair.closeness <= pair.chosen_closeness - margin,
        }
        rows.append({**asdict(pair), **facts})
        seen.add((pair.chosen, pair.rejected))
    quarantine = quarantined(Suites(None).run("pairs", rows, EXPECTATIONS), [asdict(pair) for pair in pairs])
    broken = {entry["row"] for entry in quarantine}
    return [pair for row, pair in enumerate(pairs) if row not in broken], quarantine


def distinct(episodes: Iterable[Trajectory]) -> dict[str, Trajectory]:
    """The first episode of each sequence of calls, by the hash of the calls."""
    by_calls: dict[str, Trajectory] = {}
    for episode in episodes:
        by_calls.setdefault(content_hash([[call.name, call.arguments] for call in episode.calls]), episode)
    return by_calls


def _failures(
    episodes: Iterable[Trajectory], ranks: Mapping[str, float], most: float, excluded: Collection[str]
) -> dict[str, Trajectory]:
    """The distinct episodes with a rank of ``most`` or less, by their calls, which are not among the ``excluded``."""
    failures = distinct(
        episode for episode in episodes if episode.trajectory_id in ranks and ranks[episode.trajectory_id] <= most
    )
    return {calls: failure for calls, failure in failures.items() if calls not in excluded}


def _pair(chosen: Trajectory, rejected: Trajectory, kind: str, iteration: int, ranks: Mapping[str, float]) -> Pair:
    names = chosen.trajectory_id, rejected.trajectory_id
    pair_id = content_hash([chosen.task_id, iteration, *names])
    close = ranks[chosen.trajectory_id] if kind == AMONG else 1.0
    return Pair(pair_id, chosen.task_id, iteration, kind, *names, ranks[rejected.trajectory_id], close)
