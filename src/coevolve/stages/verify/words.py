"""Whether an instruction asks for what its reference does, as far as it can be told without a model.

An environment cannot see that an instruction says one thing and its reference does another, if both can be done. Three
rules, from sure to doubtful; where none can say, nothing speaks against the instruction:

- The environment reads the words (``Environment.reading``), and what it reads does not pass the checker.
- The words are in the language of the environment's phrasebook, and are none of those that the reference could have been put
  into.
- In anybody's words (``values`` alone): a value that only the user could have given is not named; a value is named that
  nothing uses; a phrase of the phrasebook asks for a tool that the reference does not call.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from coevolve.chains import leaves, observed, precondition, source_of
from coevolve.core.confusables import seen
from coevolve.core.records import Candidate
from coevolve.core.seeding import generator
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.environment import Environment, Session
from coevolve.environments.lexicon import NUMERALS, unfitting
from coevolve.environments.phrase_generator import Question, instruct, instructions
from coevolve.environments.phrase_parser import bare, phrases_in, spoken

QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"")
NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:[.,]\d+)*")
LONG = 8  # words of a value that is too long to be named as it is
SHOWN = 160  # characters of an instruction in a reason

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """What a reference did: its calls, which of them changed the state, and whether the last one ended the episode."""

    chain: Sequence[CallOutcome]
    changed: Sequence[bool]
    ended: bool


def against(environment: Environment, session: Session, candidate: Candidate, played: Played, values: bool) -> str:
    """What speaks against the words of ``candidate``, whose reference was ``played``; empty if nothing does."""
    task, chain = candidate.task, played.chain
    reading = environment.reading(task)
    if reading is not None:
        return _played(session, task, reading)
    meaning = environment.meaning(task)
    if meaning is not None and (found := unfitting("\n".join(task.turns), meaning, values)) is not None:
        return found
    asks, questions = _asked(session, candidate, played)
    if len(task.turns) == 1 and (asks or questions):
        book = environment.phrasebook
        pattern, phrased = instructions(chain, asks, questions, book)
        if pattern.fullmatch(bare(task.turns[0])):
            return ""
        if (phrased or not book.actions) and spoken(task.turns[0], environment):
            rng = generator("what a reference does, in words", task.task_id)
            does = instruct(chain, asks, questions[0] if questions else None, book, rng)
            return f"says {_cut(task.turns[0])}; what its reference does is said as {_cut(does)}"
    if not values:
        return ""
    text = "\n".join(task.turns)
    asked = [call for row, call in enumerate(chain) if row in asks or not played.changed[row]]
    return (
        next(_unnamed(text, chain, asked), "")
        or next(_unused(text, environment, chain), "")
        or next(_undone(text, environment, chain, _offered(session, task)), "")
    )


def _cut(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _played(session: Session, task: Task, reading: Sequence[ToolCall]) -> str:
    session.reset(task)
    done = [session.step(call).done for call in reading]
    asked, made = ([call.name for call in calls] for calls in (reading, task.calls))
    if any(asked.count(name) > made.count(name) for name in asked):
        return (
            f"its words ask for {len(asked)} calls that change or answer something, of which its reference makes fewer"
        )
    if not any(done[:-1]) and is_success(session.score().reward):
        return ""
    calls = ", ".join(f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in reading)
    return f"its words ask for {_cut(calls)}, which fails"


def _asked(session: Session, candidate: Candidate, played: Played) -> tuple[list[int], list[Question]]:
    """Positions of the calls that the instruction asks for, and the questions that the last call may be the answer to.

    The candidate says so. Of one that does not, they are the calls that change the state and are no preconditions; where no
    call ends an episode, a lookup may be asked for as well, and nothing is known.
    """
    task, chain = candidate.task, played.chain
    last = len(chain) - 1
    flat = [(turn, row) for turn, calls in enumerate(task.reference) for row in range(len(calls))]
    said = {flat.index((turn, row)) for turn, row in candidate.asks if (turn, row) in flat}
    answered = [
        Question(position, key)
        for position, call in enumerate(chain[:-1])
        for key, found in observed(call.observation)
        if played.ended and key and str(found) in map(str, chain[-1].arguments.values())
    ]
    if candidate.asks:
        return sorted(said - {last} if answered else said), answered if last in said else []
    if not played.ended:
        return [], []
    ending = {last} if answered or not chain[last].arguments else set()
    changing = [row for row in range(len(chain)) if played.changed[row] and row not in ending]
    asks = [row for row in changing if len(task.turns) > 1 or not precondition(session, task, chain, row)]
    return asks or ([] if ending else [last]), answered


def _unnamed(text: str, chain: Sequence[CallOutcome], asked: Sequence[CallOutcome]) -> Iterator[str]:
    """Values that nothing revealed and the words do not name."""
    words = _words(text)
    numbers = _numbers(text) | {float(NUMERALS.index(word)) for word in words if word in NUMERALS}
    for row, call in enumerate(chain):
        if call not in asked:
            continue
        shown = {str(found) for earlier in chain[:row] for _, found in observed(earlier.observation)}
        for key, value in leaves(call.arguments):
            revealed = source_of(key, value, chain, row, single=False) is not None or str(value) in shown
            if not revealed and not _named(value, words, numbers):
                yield f"{call.name}.{key} is {_cut(str(value))}, which its words do not say"


def _unused(text: str, environment: Environment, chain: Sequence[CallOutcome]) -> Iterator[str]:
    """Numbers, quotations and known values that the words name and no call takes or finds."""
    given = [value for call in chain for _, value in leaves(call.arguments)]
    found = [value for call in chain for _, value in observed(call.observation)]
    there = " ".join(map(str, [*given, *found]))
    words, numbers = _words(there), _numbers(there)
    names = [one or other for one, other in QUOTED.findall(text)]
    names += [one for one in _entities(environment) if _within(_words(one), _words(text))]
    for name in names:
        if not _within(_words(name), words):
            yield f"names {_cut(name)}, which no call uses"
    for number in sorted(_numbers(text) - numbers):
        yield f"names {number:g}, which no call uses"


def _offered(session: Session, task: Task) -> set[str]:
    return {schema["function"]["name"] for schema in session.reset(task).tools or ()}


def _undone(text: str, environment: Environment, chain: Sequence[CallOutcome], offered: set[str]) -> Iterator[str]:
    """Phrases that ask for another tool, of those that the task offers, than the reference calls."""
    used = {call.name for call in chain}
    phrases = [one for one in phrases_in(text, environment.phrasebook) if one[0] in offered]
    done = [(start, end) for tool, start, end in phrases if tool in used]
    for tool, start, end in phrases:
        if tool not in used and not any(start < other_end and end > other for other, other_end in done):
            yield f"asks {_cut(text[start:end])}, and {tool} is not called"


def _words(text: str) -> Words:
    return tuple(re.findall(r"\w+", seen(text)))


def _numbers(text: str) -> set[float]:
    return {float(one.replace(",", "")) for one in NUMBER.findall(text) if one.count(".") < 2}


def _within(part: Words, whole: Words) -> bool:
    size = len(part)
    return any(whole[start : start + size] == part for start in range(len(whole) - size + 1))


def _named(value: Any, words: Words, numbers: set[float]) -> bool:
    """Whether the words say ``value``: as it is, or, of a long one such as a statement, what it quotes and counts."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return float(value) in numbers
    own = _words(value)
    if _within(own, words):
        return True
    parts = [one or other for one, other in QUOTED.findall(value)]
    counts = _numbers(QUOTED.sub(" ", value))
    if not parts and not counts:
        return len(own) > LONG
    return all(_within(_words(part), words) for part in parts) and counts <= numbers


@lru_cache(maxsize=8)
def _entities(environment: Environment) -> Sequence[str]:
    """Strings that arguments of known references hold, but for words that tools and phrases are described in."""
    book = environment.phrasebook
    common = set(_words(str([*environment.tools(), book.actions, book.lookups, book.fields, book.questions])))
    values = {
        value
        for task in environment.tasks("seed")
        for call in task.calls
        for _, value in leaves(call.arguments)
        if isinstance(value, str) and 0 < len(_words(value)) <= LONG
    }
    return sorted(value for value in values if not set(_words(value)) <= common)
