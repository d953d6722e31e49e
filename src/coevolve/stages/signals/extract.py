"""Where the agent is weak: the signals that the rules of ``kinds`` find in a table, each with its evidence.

``table`` reads, checks, sorts and counts out of core; here one pass over the sorted visits lets every rule see each of
them, so that a rule exists once, at any scale.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby

from coevolve.core.hashing import content_hash
from coevolve.core.records import Signal
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kind import Firing, Kind
from coevolve.stages.signals.kinds import KINDS
from coevolve.stages.signals.table import Table


def extract(
    table: Table, iteration: int, config: Signals, environments: Mapping[str, Collection[str]] | None = None
) -> Iterator[Signal]:
    """The signals of ``config.kinds`` in ``table``: task by task, at most one of a kind each, then those of all tasks.

    Where there are several ``environments``, each with the ids of its tasks, patterns are counted in each by itself.

    Within each in the order of the registry. The same input gives the same signals in order.
    """
    kinds = [kind for name, kind in KINDS.items() if name in config.kinds]
    begin = [(kind, kind.of_task) for kind in kinds if kind.of_task]
    for task_id, visits in groupby(table.visits(), key=lambda visit: visit.attempt.task_id):
        rules = [(kind, rule(config)) for kind, rule in begin]
        for visit in visits:
            for _, rule in rules:
                rule.see(visit)
        for kind, rule in rules:
            if finding := rule.finding():
                yield _signal(kind, iteration, task_id, finding)
    places = {name: table.of(tasks) for name, tasks in environments.items()} if environments else {"": table}
    for kind in kinds:
        for name, place in places.items():
            for finding in kind.of_table(place, config) if kind.of_table else ():
                yield _signal(kind, iteration, None, finding, name)


def _signal(kind: Kind, iteration: int, task_id: str | None, finding: Firing, environment: str = "") -> Signal:
    return Signal(
        signal_id=content_hash(
            [kind.name, iteration, task_id, finding.pattern, *([environment] if environment else [])]
        ),
        kind=kind.name,
        iteration=iteration,
        task_id=task_id,
        pattern=finding.pattern,
        strength=finding.weakness,
        evidence=finding.evidence,
        trajectory_ids=finding.trajectory_ids,
    )
