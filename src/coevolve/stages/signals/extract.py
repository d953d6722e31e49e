"""Where the agent is weak: forgetting, boundary and rare signals, each with its evidence.

The rules are the pure functions of the modules of the same names. ``table`` reads, checks, sorts and counts out of
core; here one pass over the sorted visits applies the rules, so that each rule exists once, at any scale.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.records import Signal, SignalKind
from coevolve.stages.signals.boundary import boundary
from coevolve.stages.signals.forgetting import forgetting
from coevolve.stages.signals.rare import ORDERS, rare
from coevolve.stages.signals.table import Table, Visit

EXAMPLES = 8  # trajectories that a signal shows, at most: failed ones first, half of the places at most
GROUPS = 16  # groups or window positions listed in a signal's evidence, at most


def extract(
    table: Table, iteration: int, window: int, threshold: float, kinds: Collection[str] = tuple(SignalKind)
) -> Iterator[Signal]:
    """The signals of ``kinds`` in ``table``: by task (forgetting before boundary), then rare patterns.

    ``window`` is W in attempts, ``threshold`` is theta in percent. The same input gives the same signals in order.
    """
    for task_id, visits in groupby(table.visits(), key=lambda visit: visit.attempt.task_id):
        for signal in task_signals(task_id, visits, iteration, window):
            if signal.kind in kinds:
                yield signal
    if SignalKind.RARE in kinds:
        yield from rare_signals(table, iteration, threshold)


def task_signals(task_id: str, visits: Iterable[Visit], iteration: int, window: int) -> Iterator[Signal]:
    """At most one forgetting and one boundary signal of a task, from its visits in order.

    Only current visits fire; those of history stand in the window. The evidence is that of the last firing.
    """
    recent: deque[Visit] = deque(maxlen=window)
    mixed: deque[Visit] = deque(maxlen=GROUPS)
    forgotten: list[Visit] = []
    firings = current = edges = 0
    fires = forgetting(_remember(visits, recent), window)
    for fired in fires:
        visit = recent[-1]
        current += visit.current
        if fired and visit.current:
            firings += 1
            forgotten = list(recent)
        if visit.current and boundary(visit.attempt.size, visit.attempt.successes):
            edges += 1
            mixed.append(visit)
    if forgotten:
        last = forgotten[-1]
        able = [visit for visit in forgotten[:-1] if visit.passed]
        shown = forgotten[-GROUPS:]
        evidence = {
            "window": window,
            "scores": [visit.attempt.score for visit in shown],
            "steps": [[visit.attempt.iteration, visit.attempt.step] for visit in shown],
            "firings": firings,
            "visits": current,
        }
        ids = _examples(last.failed, able[-1].passed if able else [])
        yield _signal(SignalKind.FORGETTING, iteration, task_id, None, evidence, ids)
    if mixed:
        last = mixed[-1]
        evidence = {
            "steps": [[visit.attempt.iteration, visit.attempt.step] for visit in mixed],
            "successes": [visit.attempt.successes for visit in mixed],
            "sizes": [visit.attempt.size for visit in mixed],
            "mixed": edges,
            "visits": current,
            "latest_success": recent[-1].attempt.successes / recent[-1].attempt.size,
        }
        yield _signal(SignalKind.BOUNDARY, iteration, task_id, None, evidence, _examples(last.failed, last.passed))


def rare_signals(table: Table, iteration: int, threshold: float) -> Iterator[Signal]:
    """A signal for every pattern rarer than ``threshold`` percent of its order, rarest first."""
    for order in ORDERS:
        counts = table.patterns(order)
        total = sum(counts.values())
        found = rare(counts, threshold)
        examples = table.examples(found, EXAMPLES)
        for pattern in found:
            evidence = {"order": order, "count": counts[pattern], "total": total, "threshold": threshold}
            yield _signal(SignalKind.RARE, iteration, None, list(pattern), evidence, examples.get(pattern, []))


def _remember(visits: Iterable[Visit], recent: deque[Visit]) -> Iterator[float]:
    """The visits' scores, each visit put into ``recent`` as it passes."""
    for visit in visits:
        recent.append(visit)
        yield visit.attempt.score


def _examples(failed: list[str], passed: list[str]) -> list[str]:
    return [*failed[: EXAMPLES // 2], *passed[: EXAMPLES // 2]]


def _signal(
    kind: SignalKind,
    iteration: int,
    task_id: str | None,
    pattern: list[str] | None,
    evidence: dict[str, Any],
    trajectory_ids: list[str],
) -> Signal:
    signal_id = content_hash([str(kind), iteration, task_id, pattern])
    return Signal(signal_id, kind, iteration, task_id, pattern, evidence, trajectory_ids)
