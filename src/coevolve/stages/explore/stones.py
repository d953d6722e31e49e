"""Stepping stones: what a task that always fails asks for, in smaller pieces.

Around a task with the signal `unsolved` the first request is answered by the task's own reference, replayed in the task's own
world. A synthesizer makes its effects tasks of their own, and the environment verifies them like any others. It uses
references, which other explorers never see: results with it are to be told apart (``Exploration.explorer`` says REFERENCE).
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from coevolve.chains import replay
from coevolve.core.records import Exploration
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge
from coevolve.stages.explore.explorer import Explorer, record
from coevolve.stages.explore.requests import Request
from coevolve.stages.signals.unsolved import UNSOLVED

REFERENCE = "reference"


class Stones:
    """See ``coevolve.stages.explore.explorer.Explorer``; all other requests are ``others``'."""

    def __init__(self, environment: Environment, known: Knowledge, others: Explorer) -> None:
        self._environment = environment
        self._known = known
        self._others = others

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        stones = _first(wanted)
        others = self._others.explore([one for one in wanted if one.exploration_id not in stones])
        for request in wanted:
            yield self._replayed(request) if request.exploration_id in stones else next(others)

    def _replayed(self, request: Request) -> Exploration:
        with closing(self._environment.open()) as session:
            chain, _, _ = replay(session, request.task)
        made = [call for call in chain if call.ok and call.name != self._known.terminal]
        return record(replace(request, world=request.task.world), REFERENCE, made, request.weakness)


def _first(wanted: Sequence[Request]) -> set[str]:
    """Of the requests around unsolved tasks, the first around each."""
    seen: dict[str, str] = {}
    for one in wanted:
        if one.signal is not None and one.signal.kind == UNSOLVED.name:
            seen.setdefault(one.task.task_id, one.exploration_id)
    return set(seen.values())
