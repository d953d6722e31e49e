"""Turn an accepted chain of calls into candidate tasks: an instruction, and a reference that the environment executes.

``scripted`` describes chains by templates, ``endpoint`` lets an LLM write. In both, a reference holds calls that the
environment has accepted, and verification judges the task.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from coevolve.core.hashing import content_hash
from coevolve.core.interruptions import counted, hopeless
from coevolve.core.records import Candidate, Exploration
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.synthesize.synthesizers import SYNTHESIZERS
from coevolve.words.learned_phrases import learned_phrases


class Synthesizer(Protocol):
    """It may have a list ``causes`` with a text for each exploration that an exception of the environment ended."""

    def abstract(self, explorations: Sequence[Exploration]) -> Iterator[Iterator[Candidate]]:
        """The candidates of each exploration, in order, the best first. Lazy on both levels."""
        ...

    def close(self) -> None: ...


class MakeSynthesizer(Protocol):
    def __call__(self, environment: Environment, tasks: Sequence[Task], seed: int, meter: Meter) -> Synthesizer:
        """A synthesizer for ``environment`` that learns its tools from ``tasks``. ``meter`` counts requests to an LLM."""
        ...


def candidates_of(
    environment: Environment,
    tasks: Sequence[Task],
    explorations: Sequence[Exploration],
    config: Synthesize,
    count: int,
    seed: int,
    meter: Meter,
    progress: Callable[[int], object],
) -> tuple[list[Candidate], list[str]]:
    """At most ``count`` candidates by ``config.synthesizer``, and a note on explorations that the environment breaks when the
    synthesizer repeats them.
    """
    make: MakeSynthesizer = SYNTHESIZERS.find(config.synthesizer, "make")
    synthesizer = make(environment, tasks, seed, meter)
    candidates = synthesize(synthesizer, explorations, count, progress)
    causes = getattr(synthesizer, "causes", [])
    if not candidates:
        hopeless(causes, len(explorations), "explorations")
    return candidates, counted(causes, len(explorations), "explorations", "broke when they were repeated")


def few_teach(environment: Environment) -> bool:
    """Whether most training tasks teach no words, so that a person should write phrases."""
    learned = learned_phrases(environment)
    return 2 * len(learned.unread) > learned.tasks


def wording(environment: Environment, config: Synthesize) -> list[str]:
    """A line on where the scripted synthesizer has its words from, if the environment has to teach them."""
    if config.synthesizer != "scripted" or environment.phrasebook.complete or environment.goals:
        return []
    return [learned_phrases(environment).note(environment.name)]


def synthesize(
    synthesizer: Synthesizer,
    explorations: Sequence[Exploration],
    count: int,
    progress: Callable[[int], object],
) -> list[Candidate]:
    """At most ``count`` different candidates: the first of every exploration, then the second of each, and so on."""
    candidates: dict[str, Candidate] = {}
    queues = synthesizer.abstract(explorations)
    try:
        while len(candidates) < count:
            left = []
            for queue in queues:
                candidate = next(queue, None)
                if candidate is None:
                    continue
                left.append(queue)
                if candidate.candidate_id not in candidates:
                    candidates[candidate.candidate_id] = candidate
                    progress(1)
                    if len(candidates) == count:
                        break
            if not left:
                break
            queues = iter(left)
    finally:
        synthesizer.close()
    return list(candidates.values())


def candidate(
    exploration: Exploration,
    turns: Sequence[str],
    reference: Sequence[Sequence[ToolCall]],
    asks: Sequence[Sequence[int]],
    names: Sequence[str],
    version: str,
) -> Candidate:
    """A candidate that starts where ``exploration`` did, with its provenance. ``names``, the tools it asks for, are tags."""
    task = Task.create(
        exploration.environment,
        "synthesized",
        turns,
        exploration.world,
        reference,
        ["+".join(names), *names],
        Provenance(
            iteration=exploration.iteration,
            signal_ids=exploration.signal_ids,
            exploration_id=exploration.exploration_id,
            parent_task_id=exploration.task_id,
            prompt_version=version,
        ),
    )
    return Candidate(
        content_hash([task.task_id, exploration.exploration_id]), task, [list(position) for position in asks]
    )
