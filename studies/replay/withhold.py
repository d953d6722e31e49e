"""The scripted synthesizer without candidates that use a withheld tool."""

from collections.abc import Iterator, Sequence

from coevolve.core.records import Candidate, Exploration
from coevolve.core.task import Task
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer

WITHHELD = {"cancel_event", "request_money", "block_contact", "accept_event", "lock"}


class Withholding(ScriptedSynthesizer):
    """Candidates whose references use none of ``WITHHELD``."""

    def abstract(self, explorations: Sequence[Exploration]) -> Iterator[Iterator[Candidate]]:
        for candidates in super().abstract(explorations):
            yield (one for one in candidates if not tools(one) & WITHHELD)


def tools(candidate: Candidate) -> set[str]:
    """The names of the tools that the reference of ``candidate`` calls."""
    return {call.name for turn in candidate.task.reference for call in turn}


def make(environment: Environment, tasks: Sequence[Task], seed: int, meter: Meter) -> Withholding:
    """See ``coevolve.stages.synthesize.synthesizer.MakeSynthesizer``."""
    return Withholding(environment, tasks, seed)
