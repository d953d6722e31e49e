"""Watchdogs: numbers of an iteration that say when co-evolution goes wrong, before the next iteration trains on it.

Diversity collapse shows in ``action_entropy`` and the two shares of duplicates, a runaway curriculum in ``drift``,
wasted rollouts in ``zero_variance``, what training took away in ``regressions``, tasks that are solved by luck in ``stagnant``, and
episodes that no statistics count in ``environment_failed``. Of learning by preference: ``margin`` and ``chosen`` say when it goes too
far, and three of the failure agent whether its failures still teach. A generator that collapses shows in ``generator_valid`` and
``generator_entropy``. Limits are the section ``watch`` of params.yaml: past the first the report says so, past the critical one the
pipeline stops.
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

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
from coevolve.core.trajectories import StopReason
from coevolve.stages.watch.config import Limit, Watch

CHANCE = 0.05  # that a task which is solved as often as ever is held for one that is not
FEW = 8  # tasks of which a share says something
REPEATS = ("duplicate", "near_duplicate")  # the gates that find a candidate is known already

MEANING = {
    "action_entropy": "how evenly the agent uses the tools: Shannon entropy of its valid calls over the most there could be",
    "duplicate_trajectories": "share of attempts, after the first of their group, whose calls repeat another's",
    "duplicate_tasks": "share of candidates that repeat a known task",
    "drift": "Jensen-Shannon divergence, in bits, of the tools that references use, from this dataset to the next",
    "zero_variance": "share of groups whose attempts all had one reward, from which nothing is learned",
    "regressions": "of the tasks visited that were once solved, the share that was solved less often on their last visit, beyond chance",
    "stagnant": "of tasks that the loop made, solved sometimes when first visited and visited twice since, the share that is solved "
    "no more often now: its words may leave open what is asked, and success be luck",
    "environment_failed": "share of attempts that ended without the agent's doing, which no statistics count",
    "margin": "by how much the last step's pairs are told apart: beta times the log-ratio to the reference policy",
    "chosen": "beta times the log-ratio of what was preferred in the last step: below 0, it has become less likely",
    "failure_success": "share of the failure agent's episodes that succeed, from which no failure is learned",
    "failure_idle": "share of the failure agent's failures that do nothing",
    "failure_distinct": "of the failure agent's failures at a task, the share that differ in calls",
    "generator_valid": "share of what the generator writes that is a spec of known tools",
    "generator_entropy": "how evenly it names tools: Shannon entropy of its goals over the most there could be",
    "generator_sample": "effective sample size of its update, as a share of what it learns from: low, few generations carry all",
}
LOW_IS_BAD = frozenset(
    {"action_entropy", "chosen", "failure_distinct", "generator_valid", "generator_entropy", "generator_sample"}
)


@dataclass(frozen=True, slots=True)
class Indicator:
    """One number and its limits. ``value`` is None where there is nothing to measure it on."""

    name: str
    value: float | None
    limit: float
    critical: float | None

    @property
    def state(self) -> str:
        """``ok``, ``limit`` or ``critical``: how far it is past its limits; ``unknown`` without a value."""
        if self.value is None:
            return "unknown"
        if self.critical is not None and self._beyond(self.critical):
            return "critical"
        return "limit" if self._beyond(self.limit) else "ok"

    @property
    def past(self) -> bool:
        """Whether it is past one of its limits."""
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


def indicators(values: Mapping[str, float | None], config: Watch) -> list[Indicator]:
    """``values`` by name beside their limits, in the order of the section ``watch``."""
    limits: dict[str, Limit] = dict(config)
    return [Indicator(name, values[name], limit.limit, limit.critical) for name, limit in limits.items()]


def summary(t: int, found: Sequence[Indicator]) -> StageSummary:
    """Of iteration ``t``; what is past a limit is a note."""
    return StageSummary(
        "watch", t, {one.name: one.value for one in found}, notes=[str(one) for one in found if one.past]
    )


STEP = ("groups", "groups_without_variance")  # what is read of each step's figures
SAID = ("pairs", "generate")  # stages whose own figures are watched


def measure(
    groups: Iterable[Sequence[Sequence[CallOutcome]]],
    ends: Sequence[StopReason],
    tools: int,
    steps: Sequence[Mapping[str, float]],
    attempts: Sequence[Attempt],
    t: int,
    tasks: Sequence[Task],
    accepted: Sequence[Task],
    verdicts: Sequence[Verdict],
    said: Mapping[str, float | None],
) -> dict[str, float | None]:
    """All indicators of iteration ``t``.

    ``groups`` holds, for each group of attempts, the calls of each attempt, and ``ends`` how each attempt ended; ``tools``
    is how many the environment has; ``steps`` are the lines of train_metrics.jsonl; ``attempts`` all made until now; ``said`` are
    the figures of the stages in ``SAID``.
    """
    last = steps[-1] if steps else {}
    used: Counter[str] = Counter()
    later = repeated = 0
    for group in groups:
        used.update(call.name for calls in group for call in calls if call.ok)
        later += len(group) - 1
        repeated += len(group) - len({json.dumps([(call.name, call.arguments) for call in calls]) for calls in group})
    return {
        "action_entropy": evenness(used, tools),
        "duplicate_trajectories": _share(repeated, later),
        "duplicate_tasks": _share(sum(_repeats(verdict) for verdict in verdicts), len(verdicts)),
        "drift": drift(_tools(tasks), _tools([*tasks, *accepted])),
        "zero_variance": _share(
            sum(step["groups_without_variance"] for step in steps), sum(step["groups"] for step in steps)
        ),
        "regressions": regressions(attempts, t),
        "stagnant": stagnant(attempts, t, {task.task_id for task in tasks if task.provenance is not None}),
        "environment_failed": _share(sum(one is StopReason.ENVIRONMENT_FAILED for one in ends), len(ends)),
        "margin": last.get("margin"),
        "chosen": last.get("chosen"),
        "failure_success": said.get(FAILURE_SUCCESS),
        "failure_idle": said.get(FAILURE_IDLE),
        "failure_distinct": said.get(FAILURE_DISTINCT),
        "generator_valid": said.get(SPEC_VALID),
        "generator_entropy": said.get(SPEC_ENTROPY),
        "generator_sample": said.get(SPEC_SAMPLE),
    }


def drift(before: Mapping[str, int], after: Mapping[str, int]) -> float | None:
    """Jensen-Shannon divergence of two distributions given as counts, in bits: 0 equal, 1 disjoint (Lin 1991)."""
    one, other = sum(before.values()), sum(after.values())
    if not one or not other:
        return None
    found = 0.0
    for name in sorted({*before, *after}):
        p, q = before.get(name, 0) / one, after.get(name, 0) / other
        middle = (p + q) / 2
        found += sum(share * math.log2(share / middle) / 2 for share in (p, q) if share)
    return max(found, 0.0)


def regressions(attempts: Sequence[Attempt], t: int) -> float | None:
    """Of the tasks visited in iteration ``t`` and solved before their last visit, the share that was solved on it less often than chance
    explains: Fisher's exact test, one-sided, below ``CHANCE``.
    """
    solved = worse = 0
    for *earlier, last in _visits(attempts, t):
        if before := sum(one.successes for one in earlier):
            solved += 1
            worse += _fewer(last.successes, last.size, before, sum(one.size for one in earlier)) < CHANCE
    return _share(worse, solved)


def _fewer(successes: int, size: int, before: int, of: int) -> float:
    """The chance of so few ``successes`` among ``size`` episodes, or fewer, where they and the ``before`` among ``of`` fell as they
    please (hypergeometric distribution).
    """
    every, right = size + of, successes + before
    ways = sum(math.comb(right, count) * math.comb(every - right, size - count) for count in range(successes + 1))
    return ways / math.comb(every, size)


def stagnant(attempts: Sequence[Attempt], t: int, made: Collection[str]) -> float | None:
    """Of the tasks in ``made`` visited in iteration ``t`` and at least twice before, and solved by some episodes of the first visit but
    not by all, the share that is solved no more often on the last. None of fewer than ``FEW``, where chance decides.
    """
    begun = risen = 0
    for visits in _visits([one for one in attempts if one.task_id in made], t):
        first, last = visits[0], visits[-1]
        if len(visits) > 2 and 0 < first.successes < first.size:
            begun += 1
            risen += last.successes * first.size > first.successes * last.size
    return 1.0 - risen / begun if begun >= FEW else None


def _visits(attempts: Sequence[Attempt], t: int) -> Iterator[list[Attempt]]:
    """Of each task visited in iteration ``t``: its visits until now, in order."""
    ordered = sorted(attempts, key=lambda one: (one.task_id, one.iteration, one.step))
    for _, one in groupby(ordered, key=lambda attempt: attempt.task_id):
        visits = list(one)
        if visits[-1].iteration == t:
            yield visits


def _tools(tasks: Sequence[Task]) -> Counter[str]:
    return Counter(call.name for task in tasks for call in task.calls)


def _repeats(verdict: Verdict) -> bool:
    return any(gate.name in REPEATS and gate.passed is False for gate in verdict.gates)


def _share(count: float, total: float) -> float | None:
    return count / total if total else None
