"""Check without a model whether an instruction asks for the same as its reference does.

If an instruction and its reference disagree but both are possible, the other gates cannot see it. This gate has three
rules, from sure to doubtful. If no rule applies, the instruction passes:

- The environment parses the words (``Environment.reading``), and the parsed calls fail the checker.
- The words are in the language of the environment's phrasebook, but the phrasebook never describes the reference so.
- For any words (only with ``values``): the words omit a value that only the user could give, name a value that no call
  uses, or contain a phrase of the phrasebook for a tool that the reference does not call.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from coevolve.chains import leaves, observed, precondition, source_of
from coevolve.core.confusables import seen
from coevolve.core.records import Candidate
from coevolve.core.seeding import rng_for
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.environment import Environment, Session
from coevolve.environments.lexicon import NUMERALS, unfitting
from coevolve.environments.phrase_generator import Question, instruct, instructions
from coevolve.environments.phrase_parser import bare, phrases_in, spoken

QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"")
NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:[.,]\d+)*")
LONG = 8  # most words of a value that an instruction must name literally
SHOWN = 160  # most characters of an instruction in a reason

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """A replayed reference: its calls, which of them changed the state, and whether the last call ended the episode."""

    chain: Sequence[CallOutcome]
    changed: Sequence[bool]
    ended: bool


def against(environment: Environment, session: Session, candidate: Candidate, played: Played, values: bool) -> str:
    """The mismatch between the words of ``candidate`` and its replayed reference; empty if there is none."""
    task, chain = candidate.task, played.chain
    reading = environment.reading(task)
    if reading is not None:
        return _played(session, task, reading)
    meaning = environment.meaning(task)
    if meaning is not None and (complaint := unfitting("\n".join(task.turns), meaning, values)) is not None:
        return complaint
    asks, questions = _asked(session, candidate, played)
    if len(task.turns) == 1 and (asks or questions):
        book = environment.phrasebook
        pattern, phrased = instructions(chain, asks, questions, book)
        if pattern.fullmatch(bare(task.turns[0])):
            return ""
        if (phrased or not book.actions) and spoken(task.turns[0], environment):
            rng = rng_for("what a reference does, in words", task.task_id)
            does = instruct(chain, asks, questions[0] if questions else None, book, rng)
            return f"says {_cut(task.turns[0])}; what its reference does is said as {_cut(does)}"
    if not values:
        return ""
    text = "\n".join(task.turns)
    offered = {schema["function"]["name"] for schema in session.reset(task).tools or ()}
    asked = [call for row, call in enumerate(chain) if row in asks or not played.changed[row]]
    return (
        next(_unnamed(text, chain, asked), "")
        or next(_unused(text, environment, chain), "")
        or next(_undone(text, environment, chain, offered), "")
    )


def _cut(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def _played(session: Session, task: Task, reading: Sequence[ToolCall]) -> str:
    session.reset(task)
    done = [session.step(call).done for call in reading]
    asked, referenced = ([call.name for call in calls] for calls in (reading, task.calls))
    if any(asked.count(name) > referenced.count(name) for name in asked):
        return (
            f"its words ask for {len(asked)} calls that change or answer something, of which its reference makes fewer"
        )
    if not any(done[:-1]) and is_success(session.score().reward):
        return ""
    calls = ", ".join(f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in reading)
    return f"its words ask for {_cut(calls)}, which fails"


def _asked(session: Session, candidate: Candidate, played: Played) -> tuple[list[int], list[Question]]:
    """Positions of the calls that the instruction asks for, and the questions that the last call may answer.

    They come from the candidate's ``asks``. A candidate without ``asks`` asks for the calls that change the state and
    only enable no later call. If no call ends its episode, it may also ask for lookups, so nothing is known.
    """
    task, chain = candidate.task, played.chain
    last = len(chain) - 1
    positions = task.positions
    asked = {positions.index((turn, row)) for turn, row in candidate.asks if (turn, row) in positions}
    answered = [
        Question(position, key)
        for position, call in enumerate(chain[:-1])
        for key, value in observed(call.observation)
        if played.ended and key and str(value) in map(str, chain[-1].arguments.values())
    ]
    if candidate.asks:
        return sorted(asked - {last} if answered else asked), answered if last in asked else []
    if not played.ended:
        return [], []
    ending = {last} if answered or not chain[last].arguments else set()
    changing = [row for row in range(len(chain)) if played.changed[row] and row not in ending]
    asks = [row for row in changing if len(task.turns) > 1 or not precondition(session, task, chain, row)]
    return asks or ([] if ending else [last]), answered


def _unnamed(text: str, chain: Sequence[CallOutcome], asked: Sequence[CallOutcome]) -> Iterator[str]:
    """Values that no call revealed and the words do not name."""
    words = _words(text)
    numbers = _numbers(text) | {float(NUMERALS.index(word)) for word in words if word in NUMERALS}
    for row, call in enumerate(chain):
        if call not in asked:
            continue
        shown = {str(value) for earlier in chain[:row] for _, value in observed(earlier.observation)}
        for key, value in leaves(call.arguments):
            revealed = source_of(key, value, chain, row, single=False) is not None or str(value) in shown
            if not revealed and not _named(value, words, numbers):
                yield f"{call.name}.{key} is {_cut(str(value))}, which its words do not say"


def _unused(text: str, environment: Environment, chain: Sequence[CallOutcome]) -> Iterator[str]:
    """Numbers, quotations and known values in the words that no call takes or finds."""
    given = [value for call in chain for _, value in leaves(call.arguments)]
    results = [value for call in chain for _, value in observed(call.observation)]
    context = " ".join(map(str, [*given, *results]))
    words, numbers = _words(context), _numbers(context)
    names = [single or other for single, other in QUOTED.findall(text)]
    names += [name for name in _entities(environment) if _within(_words(name), _words(text))]
    for name in names:
        if not _within(_words(name), words):
            yield f"names {_cut(name)}, which no call uses"
    for number in sorted(_numbers(text) - numbers):
        yield f"names {number:g}, which no call uses"


def _undone(text: str, environment: Environment, chain: Sequence[CallOutcome], offered: set[str]) -> Iterator[str]:
    """Phrases that ask for an offered tool that the reference does not call."""
    used = {call.name for call in chain}
    phrases = [phrase for phrase in phrases_in(text, environment.phrasebook) if phrase[0] in offered]
    done = [(start, end) for tool, start, end in phrases if tool in used]
    for tool, start, end in phrases:
        if tool not in used and not any(start < other_end and end > other for other, other_end in done):
            yield f"asks {_cut(text[start:end])}, and {tool} is not called"


def _words(text: str) -> Words:
    return tuple(re.findall(r"\w+", seen(text)))


def _numbers(text: str) -> set[float]:
    return {float(number.replace(",", "")) for number in NUMBER.findall(text) if number.count(".") < 2}


def _within(part: Words, whole: Words) -> bool:
    size = len(part)
    return any(whole[start : start + size] == part for start in range(len(whole) - size + 1))


def _named(value: Any, words: Words, numbers: set[float]) -> bool:
    """Whether the words name ``value``, or the quotations and numbers of a long value such as a statement."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return float(value) in numbers
    value_words = _words(value)
    if _within(value_words, words):
        return True
    parts = [single or other for single, other in QUOTED.findall(value)]
    counts = _numbers(QUOTED.sub(" ", value))
    if not parts and not counts:
        return len(value_words) > LONG
    return all(_within(_words(part), words) for part in parts) and counts <= numbers


@lru_cache(maxsize=8)
def _entities(environment: Environment) -> Sequence[str]:
    """Strings in the arguments of known references, without words that describe tools and phrases."""
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
