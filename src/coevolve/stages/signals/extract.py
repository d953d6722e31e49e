"""Extract signals, the agent's weaknesses, from a table by the rules of ``KINDS``, each with its evidence.

``table`` reads, checks, sorts and counts out of core. This module passes the sorted visits to every rule once, so the
same rules work on tables of any size.
"""

from collections.abc import Iterator
from itertools import groupby

from coevolve.core.hashing import content_hash
from coevolve.core.records import Signal
from coevolve.stages.signals.boundary import BOUNDARY
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.forgetting import FORGETTING
from coevolve.stages.signals.kind import Firing, Kind
from coevolve.stages.signals.rare import RARE
from coevolve.stages.signals.table import Table
from coevolve.stages.signals.unsolved import UNSOLVED

KINDS: dict[str, Kind] = {
    kind.name: kind for kind in (FORGETTING, BOUNDARY, RARE, UNSOLVED)
}  # in the order of reports; guidance, prompts and parameters read it too


def extract(table: Table, iteration: int, config: Signals) -> Iterator[Signal]:
    """The signals of ``config.kinds`` in ``table``: task by task, at most one per kind, then the signals about patterns.

    Kinds come in the order of ``KINDS``. The same input gives the same signals in the same order.
    """
    kinds = [kind for name, kind in KINDS.items() if name in config.kinds]
    task_kinds = [(kind, kind.of_task) for kind in kinds if kind.of_task]
    for task_id, visits in groupby(table.visits(), key=lambda visit: visit.attempt.task_id):
        rules = [(kind, rule(config)) for kind, rule in task_kinds]
        for visit in visits:
            for _, rule in rules:
                rule.see(visit)
        for kind, rule in rules:
            if finding := rule.finding():
                yield _signal(kind, iteration, task_id, finding)
    for kind in kinds:
        for finding in kind.of_table(table, config) if kind.of_table else ():
            yield _signal(kind, iteration, None, finding)


def _signal(kind: Kind, iteration: int, task_id: str | None, finding: Firing) -> Signal:
    return Signal(
        signal_id=content_hash([kind.name, iteration, task_id, finding.pattern]),
        kind=kind.name,
        iteration=iteration,
        task_id=task_id,
        pattern=finding.pattern,
        strength=finding.weakness,
        evidence=finding.evidence,
        trajectory_ids=finding.trajectory_ids,
    )
