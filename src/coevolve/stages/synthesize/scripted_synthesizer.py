"""A synthesizer without a model: templates describe the effects of a chain in words.

It removes calls that the chain does not need and describes the remaining effects, in the words of ``instruct`` in
words/phrase_generator.py. An instruction never gives a value
that a lookup reveals: it describes the lookup instead.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from coevolve.core.interruptions import contained
from coevolve.core.records import Candidate, Exploration
from coevolve.core.seeding import rng_for
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.endpoint.spending import Meter
from coevolve.environments.chains import ambiguous, observed, origin_of, paths, precondition, replay, source_of
from coevolve.environments.environment import Environment, Phrasebook, Session
from coevolve.environments.knowledge import Knowledge, learn
from coevolve.stages.synthesize.synthesizer import candidate
from coevolve.words.learned_phrases import phrases_of
from coevolve.words.phrase_generator import Question, Undescribable, instruct

VERSION = "scripted-1"  # version of the templates; part of a candidate's provenance
INDUCED = "induced-1"  # the same for phrases from training tasks
QUESTIONS = 0.8  # share of chains with a final lookup whose instruction asks for its result


class ScriptedSynthesizer:
    """See ``coevolve.stages.synthesize.synthesizer.Synthesizer``: instructions by templates, with the environment's phrasebook."""

    def __init__(self, environment: Environment, tasks: Sequence[Task], seed: int) -> None:
        self._knowledge = learn(environment, tasks)
        self._book = phrases_of(environment) if self._knowledge.habits else environment.phrasebook
        self._session = environment.open()
        self._seed = seed
        self._constructs = bool(environment.goals)
        self.causes: list[str] = []

    def abstract(self, explorations: Sequence[Exploration]) -> Iterator[Iterator[Candidate]]:
        for exploration in explorations:
            yield self._up_to_a_break(exploration)

    def _up_to_a_break(self, exploration: Exploration) -> Iterator[Candidate]:
        with contained(self.causes):
            if self._constructs:
                yield _spoken(self._session, exploration)
                return
            rng = rng_for("synthesize", self._seed, exploration.exploration_id)
            yield from _abstract(self._session, exploration, self._knowledge, self._book, rng)

    def close(self) -> None:
        self._session.close()


def _abstract(
    session: Session, exploration: Exploration, knowledge: Knowledge, book: Phrasebook, rng: random.Random
) -> Iterator[Candidate]:
    """The candidates of one exploration: first all effects of the chain, then each effect alone."""
    calls = [ToolCall(call.name, call.arguments) for call in exploration.calls if call.ok]
    played = replay(session, _start(exploration), [calls])
    chain, changed = played.chain, played.changed
    if len(chain) != len(calls) or played.refused:
        return
    effects = [position for position in range(len(chain)) if changed[position]]
    asked_read = bool(chain) and not changed[-1] and knowledge.asks_for(chain[-1].name)
    whole = _needed(session, exploration, chain, effects, asked_read, knowledge)
    tried = set()
    for goals in (effects, *([effect] for effect in effects if len(effects) > 1)):
        kept = whole if goals is effects else _needed(session, exploration, chain, goals, False, knowledge)
        key = tuple(kept)
        if not kept or key in tried:
            continue
        tried.add(key)
        candidate = _candidate(session, exploration, [calls[position] for position in kept], knowledge, book, rng)
        if candidate is not None:
            yield candidate


def _spoken(session: Session, exploration: Exploration) -> Candidate:
    """The candidate of a constructed task, whose world provides the instruction."""
    instruction = session.reset(_start(exploration)).content
    calls = [ToolCall(call.name, call.arguments) for call in exploration.calls]
    return candidate(
        exploration, [instruction], [calls], [[0, row] for row in range(len(calls))], exploration.goals, VERSION
    )


def _start(exploration: Exploration) -> Task:
    """A draft of a task that starts where the exploration did."""
    return Task(exploration.exploration_id, exploration.environment, "exploration", [""], exploration.world, [[]])


def _needed(
    session: Session,
    exploration: Exploration,
    chain: Sequence[CallOutcome],
    goals: Sequence[int],
    last: bool,
    knowledge: Knowledge,
) -> list[int]:
    """Positions of the calls of ``chain`` that the ``goals`` (and the ``last`` call) need.

    Greedy from the end: it drops a call if the environment still accepts the others and their values still have a
    source.
    """
    wanted = {*goals, *([len(chain) - 1] if last else [])}
    if not wanted:
        return []
    kept = list(range(max(wanted) + 1))
    before = chain[: len(kept)]
    for position in reversed(range(len(kept))):
        if position in wanted:
            continue
        fewer = [other for other in kept if other != position]
        calls = [ToolCall(chain[other].name, chain[other].arguments) for other in fewer]
        after = replay(session, _start(exploration), [calls], watch=False).chain
        if _still(before, after, kept, fewer, knowledge):
            kept, before = fewer, after
    return kept


def _still(
    before: Sequence[CallOutcome],
    after: Sequence[CallOutcome],
    kept: Sequence[int],
    fewer: Sequence[int],
    knowledge: Knowledge,
) -> bool:
    """Whether the calls at ``fewer`` are accepted without the dropped call, and no value loses its source."""
    if len(after) < len(fewer) or not all(call.ok for call in after):
        return False
    where = {position: row for row, position in enumerate(kept)}
    source = origin_of if knowledge.habits else source_of
    for row, position in enumerate(fewer):
        for key, value in paths(after[row].arguments):
            had_source = source(key, value, before, where[position]) is not None
            said = knowledge.habits and any(value == one for call in after[:row] for _, one in paths(call.arguments))
            if had_source and not said and source(key, value, after, row) is None:
                return False
    return True


def _candidate(
    session: Session,
    exploration: Exploration,
    calls: list[ToolCall],
    knowledge: Knowledge,
    book: Phrasebook,
    rng: random.Random,
) -> Candidate | None:
    played = replay(session, _start(exploration), [calls])
    chain, changed = played.chain, played.changed
    if not knowledge.habits and ambiguous(chain):
        return None
    asks = [
        position
        for position, call in enumerate(chain)
        if changed[position]
        # users say a call that only enables another, unless their own tasks leave such calls out
        and (
            (knowledge.habits is not None and call.name not in knowledge.habits.enabling)
            or not precondition(session, _start(exploration), chain, position)
        )
    ]
    question, answer = None, {}
    if chain and not changed[-1]:
        question = _question(chain, knowledge, rng)
        if question is not None:
            value = dict(observed(chain[-1].observation))[question.field]
            answer = {str(knowledge.answer): str(value)}
        elif knowledge.terminal:
            return None  # the instruction does not ask for this lookup
        else:
            asks.append(len(chain) - 1)  # the environment checks what lookups return
    if not asks and question is None:
        return None
    try:
        instruction = instruct(chain, asks, question, book, rng)
    except Undescribable:
        return None
    reference = [*calls, ToolCall(knowledge.terminal, answer)] if knowledge.terminal else calls
    names = [calls[position].name for position in asks] + ([f"ask_{question.field}"] if question else [])
    positions = [[0, position] for position in asks] + (
        [[0, len(reference) - 1]] if question and knowledge.terminal else []
    )
    version = INDUCED if knowledge.habits else VERSION
    return candidate(exploration, [instruction], [reference], positions, names, version)


def _question(chain: Sequence[CallOutcome], knowledge: Knowledge, rng: random.Random) -> Question | None:
    """A question for a field of the last call's result, if the environment takes answers and the field is unique."""
    if knowledge.answer is None or rng.random() > QUESTIONS:
        return None
    results = observed(chain[-1].observation)
    keys = [key for key, _ in results]
    given: list[Any] = list(chain[-1].arguments.values())
    fields = [
        key
        for key, value in results
        if key and key != "id" and not key.endswith("_id") and keys.count(key) == 1 and value not in given
    ]
    return Question(len(chain) - 1, rng.choice(fields)) if fields else None


def make(environment: Environment, tasks: Sequence[Task], seed: int, meter: Meter) -> ScriptedSynthesizer:
    return ScriptedSynthesizer(environment, tasks, seed)
