"""Watchdogs: indicators of an iteration that show when co-evolution goes wrong, before the next iteration trains on it.

- ``action_entropy`` and the two shares of duplicates show a collapse of diversity, ``drift`` a runaway curriculum.
- ``zero_variance`` shows wasted rollouts, ``regressions`` lost abilities, ``stagnant`` tasks that are solved by luck.
- ``environment_failed`` shows episodes that count nowhere, ``refused`` kinds of tasks lost to the answer format.
- ``margin`` and ``chosen`` show when preference learning goes too far.
- The three indicators of the failure agent show whether its failures still teach.
- ``generator_valid`` and ``generator_entropy`` show a collapse of the task generator.

Section ``watch`` of params.yaml sets the limits. Past a limit the report warns; past a critical limit the pipeline stops.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_json
from coevolve.core.records import Attempt, Verdict
from coevolve.core.stage_summary import (
    FAILURE_DISTINCT,
    FAILURE_IDLE,
    FAILURE_SUCCESS,
    SPEC_ENTROPY,
    SPEC_SAMPLE,
    SPEC_VALID,
    StageSummary,
)
from coevolve.core.statistics import evenness
from coevolve.core.task import CallOutcome, Task
from coevolve.core.trajectories import StopReason, Trajectory, by_reason, unread_note
from coevolve.stages.watch.config import Limit, Watch

CHANCE = 0.05  # probability of a false alarm per task in ``regressions``
FEW = 8  # fewest tasks for a meaningful share
FEW_TOOLS = 4  # fewest tools for a meaningful entropy: with two tools, an agent may solve its tasks with only one
VISITS = 2  # visits without an episode that counts, after which a note names the task
NAMED = 5  # most tasks that a note names
REPEATS = ("duplicate", "near_duplicate")  # the gates that refuse known tasks

MEANING = {
    "action_entropy": "evenness of the agent's tool use: Shannon entropy of its valid calls over the largest possible entropy",
    "duplicate_trajectories": "share of attempts, after the first of their group, whose calls repeat another attempt",
    "duplicate_tasks": "share of candidates that repeat a known task",
    "drift": "Jensen-Shannon divergence, in bits, of the tools that references use, from this dataset to the next",
    "zero_variance": "share of groups whose attempts all have the same reward, so that they teach nothing",
    "regressions": "share of visited, once-solved tasks that the agent solved less often on the last visit, beyond chance",
    "stagnant": "share of the loop's tasks that the agent solves no more often than at first, among tasks that it sometimes solved at "
    "first and has visited twice since: their words may be ambiguous, and success be luck",
    "environment_failed": "share of attempts in which the environment failed; no statistics count them",
    "refused": "share of kinds of tasks that are never solved and whose episodes end with answers that the environment refuses or "
    "cannot read: the agent may know the answer, but not its format",
    "unreadable": "share of the agent's replies with a call that cannot be read: the agent may write another form of calls",
    "margin": "beta times the difference of the log-ratios of both sides of a pair, in the last step",
    "chosen": "beta times the log-ratio of the preferred episodes in the last step: below 0, they have become less likely",
    "failure_success": "share of the failure agent's episodes that succeed, which teach no failure",
    "failure_idle": "share of the failure agent's failures that do nothing",
    "failure_distinct": "share of the failure agent's failures at a task that differ in calls",
    "generator_valid": "share of the generator's output that is a valid spec of known tools",
    "generator_entropy": "evenness of the tools that the generator names: Shannon entropy of its goals over the largest possible entropy",
    "generator_sample": "effective sample size of the generator's update, as a share of its generations: low if few generations "
    "carry all weight",
}
LOW_IS_BAD = frozenset(
    {"action_entropy", "chosen", "failure_distinct", "generator_valid", "generator_entropy", "generator_sample"}
)


@dataclass(frozen=True, slots=True)
class Indicator:
    """A number with its limits. ``value`` is None if there is nothing to measure."""

    name: str
    value: float | None
    limit: float
    critical: float | None

    @property
    def state(self) -> str:
        """``ok``, ``limit`` or ``critical`` by the limits that the value passes; ``unknown`` without a value."""
        if self.value is None:
            return "unknown"
        if self.critical is not None and self._beyond(self.critical):
            return "critical"
        return "limit" if self._beyond(self.limit) else "ok"

    @property
    def past(self) -> bool:
        """Whether the value is past one of its limits."""
        return self.state in ("limit", "critical")

    def _beyond(self, bound: float) -> bool:
        assert self.value is not None
        return self.value < bound if self.name in LOW_IS_BAD else self.value > bound

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "limit": self.limit, "critical": self.critical, "state": self.state}

    def __str__(self) -> str:
        side = "below" if self.name in LOW_IS_BAD else "above"
        bound = self.critical if self.state == "critical" else self.limit
        return f"{self.name} {self.value:.2f} is {side} {bound:g}: {MEANING[self.name]}"


def read_indicators(path: Path) -> list[Indicator]:
    """The indicators in a watch.json. Anything else is a CoevolveError that names the indicator."""
    indicators = []
    for name, value in read_json(path).items():
        if name not in MEANING:
            raise CoevolveError(f"{path}: unknown indicator {name!r}; run the stage that writes it again")
        record = {**value, "name": name} if isinstance(value, dict) else value
        indicators.append(parse(Indicator, record, f"{path}: {name}"))
    return indicators


def foreign(by_pairs: bool, failure_agent: bool, generator: bool) -> set[str]:
    """The indicators that do not apply to a run. The arguments say whether the run has a learner from pairs, a failure agent
    and a task generator.
    """
    parts = {"margin": by_pairs, "chosen": by_pairs, "failure_": by_pairs and failure_agent, "generator_": generator}
    return {
        name for name in MEANING for prefix, takes_part in parts.items() if name.startswith(prefix) and not takes_part
    }


def indicators(
    values: Mapping[str, float | None], config: Watch, without: Collection[str] = frozenset()
) -> list[Indicator]:
    """``values`` with their limits, in the order of section ``watch``, except those of ``without``."""
    limits: dict[str, Limit] = dict(config)
    return [
        Indicator(name, values[name], limit.limit, limit.critical)
        for name, limit in limits.items()
        if name not in without
    ]


def unfinished(trajectories: Sequence[Trajectory]) -> list[str]:
    """Notes on episodes that the environment failed, by reason, on those that calls broke, and on unreadable replies."""
    total = len(trajectories)
    failures = Counter(trajectory.failure for trajectory in trajectories if not trajectory.counts)
    broken = sum(trajectory.stop_reason is StopReason.BROKEN for trajectory in trajectories)
    notes = []
    if failures:
        reasons = by_reason(failures)
        notes.append(
            f"{failures.total()} of {total} episodes count nowhere, because the environment failed ({reasons})"
        )
    unread = [reply for trajectory in trajectories for reply in trajectory.unread]
    notes += unread_note(
        len(unread), sum(len(trajectory.tokens) for trajectory in trajectories), "".join(unread[:1])[:200]
    )
    if broken:
        notes.append(f"{broken} of {total} episodes score 0, because a call broke the session")
    return notes


def summary(t: int, measured: Sequence[Indicator], notes: Sequence[str] = ()) -> StageSummary:
    """The stage's summary of iteration ``t``, with ``notes`` and a note for each indicator past a limit."""
    return StageSummary(
        "watch",
        t,
        {indicator.name: indicator.value for indicator in measured},
        notes=[*(str(indicator) for indicator in measured if indicator.past), *notes],
    )


STEP_KEYS = ("groups", "groups_without_variance")  # required keys of a step's metrics
WATCHED_STAGES = ("pairs", "generate")  # stages whose figures are indicators


def calls_by_group(trajectories: Iterable[Trajectory]) -> Iterator[list[list[CallOutcome]]]:
    """The calls of each attempt that counts, by group. Groups without such an attempt are left out."""
    counted = (trajectory for trajectory in trajectories if trajectory.counts)
    for _, group in groupby(counted, key=lambda trajectory: (trajectory.step, trajectory.group)):
        yield [trajectory.calls for trajectory in group]


def measure(
    groups: Iterable[Sequence[Sequence[CallOutcome]]],
    stop_reasons: Sequence[StopReason],
    tools: int,
    steps: Sequence[Mapping[str, float]],
    attempts: Sequence[Attempt],
    t: int,
    tasks: Sequence[Task],
    accepted: Sequence[Task],
    verdicts: Sequence[Verdict],
    figures: Mapping[str, float | None],
) -> dict[str, float | None]:
    """All indicators of iteration ``t``.

    ``groups`` holds the calls of each attempt that counts, by group, and ``stop_reasons`` the stop reason of every attempt.
    ``tools`` is the number of tools of the environment. ``steps`` are the lines of train_metrics.jsonl, ``attempts`` all
    attempts until now, and ``figures`` the figures of ``WATCHED_STAGES``.
    """
    last = steps[-1] if steps else {}
    repeats = sum(any(gate.name in REPEATS and gate.passed is False for gate in verdict.gates) for verdict in verdicts)
    used: Counter[str] = Counter()
    later = repeated = 0
    for group in groups:
        used.update(call.name for calls in group for call in calls if call.ok)
        later += len(group) - 1
        repeated += len(group) - len({json.dumps([(call.name, call.arguments) for call in calls]) for calls in group})
    return {
        "action_entropy": evenness(used, tools) if tools >= FEW_TOOLS else None,
        "duplicate_trajectories": _share(repeated, later),
        "duplicate_tasks": _share(repeats, len(verdicts)),
        "drift": drift(_tools(tasks), _tools([*tasks, *accepted])),
        "zero_variance": _share(
            sum(step["groups_without_variance"] for step in steps), sum(step["groups"] for step in steps)
        ),
        "regressions": regressions(attempts, t),
        "stagnant": stagnant(attempts, t, {task.task_id for task in tasks if task.provenance is not None}),
        "environment_failed": _share(
            sum(reason is StopReason.ENVIRONMENT_FAILED for reason in stop_reasons), len(stop_reasons)
        ),
        "margin": last.get("margin"),
        "chosen": last.get("chosen"),
        "failure_success": figures.get(FAILURE_SUCCESS),
        "failure_idle": figures.get(FAILURE_IDLE),
        "failure_distinct": figures.get(FAILURE_DISTINCT),
        "generator_valid": figures.get(SPEC_VALID),
        "generator_entropy": figures.get(SPEC_ENTROPY),
        "generator_sample": figures.get(SPEC_SAMPLE),
    }


def drift(before: Mapping[str, int], after: Mapping[str, int]) -> float | None:
    """Jensen-Shannon divergence of two distributions, given as counts, in bits: 0 if equal, 1 if disjoint (Lin 1991)."""
    before_total, after_total = sum(before.values()), sum(after.values())
    if not before_total or not after_total:
        return None
    divergence = 0.0
    for name in sorted({*before, *after}):
        p, q = before.get(name, 0) / before_total, after.get(name, 0) / after_total
        middle = (p + q) / 2
        divergence += sum(share * math.log2(share / middle) / 2 for share in (p, q) if share)
    return max(divergence, 0.0)


def regressions(attempts: Sequence[Attempt], t: int) -> float | None:
    """The share of once-solved tasks that are solved less often on their visit in iteration ``t``.

    A task counts if a one-sided Fisher's exact test against its earlier visits gives a p-value below ``CHANCE``.
    """
    solved = worse = 0
    for *earlier, last in _visits(attempts, t):
        if earlier_successes := sum(visit.successes for visit in earlier):
            solved += 1
            worse += _fewer(last.successes, last.size, earlier_successes, sum(visit.size for visit in earlier)) < CHANCE
    return _share(worse, solved)


def _fewer(successes: int, size: int, earlier_successes: int, earlier_size: int) -> float:
    """The probability of at most ``successes`` in ``size`` episodes, if chance spreads all successes over both samples.

    The other sample has ``earlier_successes`` in ``earlier_size`` episodes (hypergeometric distribution).
    """
    total, solved = size + earlier_size, successes + earlier_successes
    ways = sum(math.comb(solved, count) * math.comb(total - solved, size - count) for count in range(successes + 1))
    return ways / math.comb(total, size)


def stagnant(attempts: Sequence[Attempt], t: int, synthesized: Collection[str]) -> float | None:
    """The share of tasks in ``synthesized`` that are solved no more often on the last visit than on the first.

    It counts tasks that were visited in iteration ``t`` and at least twice before, and that some but not all episodes of
    the first visit solved. None for fewer than ``FEW`` tasks, where chance dominates.
    """
    eligible = improved = 0
    for visits in _visits([attempt for attempt in attempts if attempt.task_id in synthesized], t):
        first, last = visits[0], visits[-1]
        if len(visits) > 2 and 0 < first.successes < first.size:
            eligible += 1
            improved += last.successes * first.size > first.successes * last.size
    return 1.0 - improved / eligible if eligible >= FEW else None


def never_counted(visits: Sequence[Attempt], tasks: Sequence[Task]) -> list[str]:
    """A note that names the ``tasks`` with ``VISITS`` visits or more and no episode that counts, if there are any."""
    counts = Counter(visit.task_id for visit in visits)
    counted = {visit.task_id for visit in visits if visit.size}
    names = [task.task_id for task in tasks if counts[task.task_id] >= VISITS and task.task_id not in counted]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    shown = ", ".join(names[:NAMED]) + more
    note = f"the environment failed in every episode of {len(names)} tasks, in {VISITS} visits or more: {shown}"
    return [note] if names else []


def _visits(attempts: Sequence[Attempt], t: int) -> Iterator[list[Attempt]]:
    """For each task visited in iteration ``t``, all its visits in order."""
    ordered = sorted(attempts, key=lambda attempt: (attempt.task_id, attempt.iteration, attempt.step))
    for _, group in groupby(ordered, key=lambda attempt: attempt.task_id):
        visits = list(group)
        if visits[-1].iteration == t:
            yield visits


def _tools(tasks: Sequence[Task]) -> Counter[str]:
    return Counter(call.name for task in tasks for call in task.calls)


def _share(count: float, total: float) -> float | None:
    return count / total if total else None
