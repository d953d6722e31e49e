"""Check without a model that an instruction asks for the calls of its reference.

If an instruction and its reference disagree but both are possible, the other gates cannot notice it. There are two rules:

1. If the environment can parse the words (``ParsesWords``), the parsed calls must pass the checker. Otherwise words
   pass that the phrasebook, with the phrases of training tasks, says for the reference.
2. Other words must name every value that only the user could give, name no value that no call uses, and ask for the tools of
   the reference and no other. They must not be a sentence for the reference in which words were added or replaced.

By either rule, the words decide each value of a lookup: they name it, or no other value of that lookup works in this world.

The second rule needs a phrasebook or a lexicon (``KnowsMeanings``) of the environment, or ``values``. Words that it does
not refuse pass with ``values``, if there is something to compare. Without ``values`` they are not checked.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain as joined
from itertools import combinations, product
from typing import Any, Protocol, runtime_checkable

from coevolve.core.mentions import NUMERALS, STEM, inflected, words_of
from coevolve.core.records import Candidate, Gate
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.border import crossed
from coevolve.environments.chains import Played, leaves, observed, precondition, replay, shown_in, source_of
from coevolve.environments.environment import Environment, Phrasebook, Session
from coevolve.environments.knowledge import fruitless
from coevolve.environments.user_habits import beside
from coevolve.words.learned_phrases import learned_phrases, phrases_of
from coevolve.words.lexicon import Meaning, unfitting
from coevolve.words.named_values import (
    FUNCTION_WORDS,
    comparable,
    cut,
    foreign,
    phrases_in,
    undone,
    unnamed,
    unused,
    within,
)
from coevolve.words.phrase_generator import SLOT, Question, Undescribable, instruct, instructions, spaced

NAME = "words_match"
OPTIONAL = 3  # most calls that the words may omit in any combination
CHOICES = 16  # most other values to try instead of one that the words do not name
LONGEST = 1000  # most characters of a sentence of an environment's language
NEAR = 2  # most words by which a text differs from a sentence of which it is a corruption
_COURTESIES = (
    "please kindly thanks thank thx ok okay just now hi hello hey could can would will you i need want like go first so"
)
IDLE = frozenset(f"a an the my our your me if to for and {_COURTESIES}".split())  # words without a part in a request


@runtime_checkable
class ParsesWords(Protocol):
    """An environment that can parse the words of a task."""

    def reading(self, task: Task) -> list[ToolCall] | None:
        """The calls that the words of ``task`` ask for in its world; None if they cannot be parsed.

        Implementations must not use the reference: verification compares these calls with it.
        """
        ...


@runtime_checkable
class KnowsMeanings(Protocol):
    """An environment that knows what its words can mean."""

    def meaning(self, task: Task) -> Meaning | None:
        """The senses of words in the world of ``task``, and the senses of its reference; None if they are unknown."""
        ...


def words_match(environment: Environment, session: Session, candidate: Candidate, played: Played, values: bool) -> Gate:
    """Whether the words of ``candidate`` ask for its replayed reference. ``passed`` is None if no rule decides.

    The words are those that the session said to the agent, whatever the file of the task says.
    """
    task, chain = replace(candidate.task, turns=played.said), played.chain
    reading = environment.reading(task) if isinstance(environment, ParsesWords) else None
    if reading is not None:
        complaint = _played(session, task, reading)
        return Gate(NAME, not complaint, complaint)
    text, book = "\n".join(task.turns), phrases_of(environment)
    meaning = environment.meaning(task) if isinstance(environment, KnowsMeanings) else None
    if not book.complete and (complaint := next(foreign(text, environment, chain), "")):
        return Gate(NAME, False, complaint)
    asks, questions = _asked(session, candidate, played)
    lookups = [call for row, call in enumerate(chain) if not played.changed[row] and row not in (asks or [[]])[0]]
    undecided = _undecided(environment, session, task, played, lookups, True)
    if not book.complete and (doubt := next(undecided, "")):
        return Gate(NAME, False, doubt)
    sentences = list(meaning.sentences) if meaning is not None else []
    is_sentence = len(task.turns) == 1 and len(text) <= LONGEST
    for rows, question in product(asks if is_sentence else (), questions):
        with suppress(Undescribable):
            sentences.append(instruct(chain, rows, question, book, _Echo(text)))
            if instructions(chain, rows, question, book).fullmatch(text):
                return Gate(NAME, True)
    sentence = min(sentences, key=lambda sentence: _edits(text, sentence)[1], default="")
    if sentence and _said(sentence) == _said(text):
        return Gate(NAME, True)
    if not values and meaning is None and not environment.phrasebook.actions:
        why = f"{environment.name} has no phrasebook; `verify.words: values` compares names and numbers"
        return Gate(NAME, None, why)
    usual = FUNCTION_WORDS if book.complete else FUNCTION_WORDS | learned_phrases(environment).joining
    if sentence and (complaint := _corrupted(text, sentence, environment.phrasebook, chain, usual)):
        return Gate(NAME, False, complaint)
    understood = unfitting(text, meaning, values) if meaning is not None else None
    if understood is not None:
        return Gate(NAME, not understood, understood)
    asked = [call for row, call in enumerate(chain) if row in (asks or [[]])[0] or not played.changed[row]]
    offered = frozenset(schema["function"]["name"] for schema in session.reset(task).tools or ())
    doubts: Iterator[str] = joined(
        _undecided(environment, session, task, played, asked, not book.english),
        unused(text, environment, chain),
        undone(text, book, chain, offered),
    )
    if (values or meaning is None) and (doubt := next(doubts, "")):
        return Gate(NAME, False, doubt)
    if not values:
        return Gate(NAME, None, "is in other words than its language, and names what its reference needs")
    if comparable(text, environment, chain, asked) or phrases_in(text, book, offered):
        return Gate(NAME, True)
    return Gate(NAME, None, "its words and the calls that they must name have no names or numbers to compare")


def _undecided(
    environment: Environment,
    session: Session,
    task: Task,
    played: Played,
    asked: Sequence[CallOutcome],
    inflecting: bool,
) -> Iterator[str]:
    """The values of ``asked`` calls that the words do not name although they name another or another works as well.

    With ``inflecting``, a word that begins as the value names it. A complete language names all. Several turns are not compared.
    """
    text, chain = "\n".join(task.turns), played.chain
    if len(task.turns) > 1 and not environment.phrasebook.complete:
        return  # people leave values to their earlier turns, and to defaults
    for row, key, value in unnamed(text, chain, asked):
        if inflecting and inflected(value, text):
            continue
        name, last = chain[row].name, played.ended and row == len(chain) - 1
        calls = (call for known in environment.tasks("seed") for call in known.calls if call.name == name)
        known_values = [one for call in calls for other, one in leaves(call.arguments) if other == key]
        made_up = f"{value}x" if isinstance(value, str) else value + 1
        others = [one for one in (*beside(value, task.world), made_up, *known_values) if one != value][:CHOICES]
        must = environment.phrasebook.complete or last
        if must or any(inflected(one, text) or _works(session, task, played, row, value, one) for one in others):
            yield f"{name}.{key} is {cut(str(value))}, which its words do not say"


def _works(session: Session, task: Task, played: Played, row: int, value: Any, other: Any) -> bool:
    """Whether the call at ``row`` with ``other`` for ``value`` is accepted, and changes or finds something else."""
    chain = played.chain
    *calls, last = [ToolCall(call.name, call.arguments) for call in chain[: row + 1]]
    instead = {key: other if one == value else one for key, one in last.arguments.items()}
    tried = replay(session, task, [[*calls, ToolCall(last.name, instead)]])
    outcomes, changed = tried.chain, tried.changed
    if instead == last.arguments:
        return True  # the value is inside of an argument
    if len(outcomes) <= row or not outcomes[row].ok or fruitless(outcomes[row].observation):
        return False
    shown, found = ({str(one.value) for one in shown_in(each[row].observation)} for each in (chain, outcomes))
    used = shown & {str(one) for call in chain[row + 1 :] for _, one in leaves(call.arguments)}
    return changed[row] if played.changed[row] else not used or not used <= found


class _Echo(random.Random):
    """Chooses the alternative that is most like a text."""

    def __init__(self, text: str) -> None:
        super().__init__(0)
        self._text = text
        self._words = words_of(text)

    def choice(self, seq: Sequence[str]) -> str:  # type: ignore[override]
        return max(seq, key=lambda part: (within(words_of(part), self._words), -_edits(self._text, part)[1]))


@lru_cache(maxsize=256)
def _said(text: str) -> list[str]:
    """The words of ``text`` that have a part in a request, with numbers in digits."""
    words = [word for word in words_of(text) if word not in IDLE]
    return [str(NUMERALS.index(word)) if word in NUMERALS else word for word in words]


def _edits(text: str, sentence: str) -> tuple[list[str], int]:
    """The words that ``text`` adds to ``sentence``, and the number of words that it adds or lacks."""
    said, language = _said(text), _said(sentence)
    same = SequenceMatcher(None, said, language, autojunk=False).get_matching_blocks()
    kept = {row for block in same for row in range(block.a, block.a + block.size)}
    return [word for row, word in enumerate(said) if row not in kept], len(said) + len(language) - 2 * len(kept)


def _corrupted(text: str, sentence: str, book: Phrasebook, chain: Sequence[CallOutcome], usual: frozenset[str]) -> str:
    """The complaint about a text that is ``sentence`` with foreign words, or in a complete language, a part of it."""
    added, count = _edits(text, sentence)
    names = {call.name for call in chain}
    phrases = [found for part in (book.actions, book.lookups) for name, found in part.items() if name in names]
    foreign = set(added) - usual - set(words_of(str(phrases)))
    if foreign if count <= NEAR else book.complete and set(_said(sentence)).issuperset(added):
        return f"says {cut(text)}, but the words for its reference are {cut(sentence)}"
    return ""


def speaks_of(environment: Environment, chain: Sequence[CallOutcome], row: int, text: str) -> bool | None:
    """Whether ``text`` has a word of the phrases or values of the call at ``row``.

    A tool without phrases has only its name. A text without that name may describe the call in other words: None.
    """
    name = chain[row].name
    templates = environment.phrasebook.actions.get(name)
    if not templates:
        return within(words_of(spaced(name)), words_of(text)) or None
    return _about(text, [*(SLOT.sub(" ", template) for template in templates), *_values(chain, row)])


def _played(session: Session, task: Task, reading: Sequence[ToolCall]) -> str:
    tools = session.reset(task).tools
    done = [session.step(crossed(call, tools)).done for call in reading]
    asked, referenced = ([call.name for call in calls] for calls in (reading, task.calls))
    if any(asked.count(name) > referenced.count(name) for name in asked):
        return (
            f"its words ask for {len(asked)} calls that change or answer something, of which its reference makes fewer"
        )
    if not any(done[:-1]) and is_success(session.score().reward):
        return ""
    calls = ", ".join(f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in reading)
    return f"its words ask for {cut(calls)}, which fails"


def _asked(session: Session, candidate: Candidate, played: Played) -> tuple[list[list[int]], list[Question | None]]:
    """Each possible set of calls that the instruction may ask for, and the questions that the last call may answer (None: none).

    An instruction must ask for the calls that change the state, except calls that only enable a later call: it may ask for
    those. ``asks`` can only add requirements: the words must mention a change that it claims. If no call ends the episode,
    the user also wants the result of the last call, and of lookups in ``asks``.
    """
    task, chain, changed = candidate.task, played.chain, played.changed
    last = len(chain) - 1
    positions = {position: row for row, position in enumerate(task.positions[: len(chain)])}
    claimed = {positions[position] for asked in candidate.asks if (position := tuple(asked)) in positions}
    answered = [
        Question(position, key)
        for position, call in enumerate(chain[:-1])
        for key, value in observed(call.observation)
        if played.ended and key and str(value) in map(str, chain[-1].arguments.values())
    ]
    ending = {last} if played.ended and (answered or not chain[last].arguments) else set()
    rows = [row for row in range(len(chain)) if changed[row] and row not in ending]
    optional = [
        row for row in rows if row not in claimed and len(task.turns) == 1 and precondition(session, task, chain, row)
    ]
    must = {row for row in rows if row not in optional} | (set() if played.ended else {*claimed, last})
    if not must and not ending:
        must = {last}
    sizes = range(len(optional) + 1) if len(optional) <= OPTIONAL else (0, len(optional))
    choices = joined.from_iterable(combinations(optional, size) for size in sizes)
    asks = [sorted({*must, *choice}) for choice in choices]
    return [rows for rows in asks if rows or answered], [*answered] or [None]


def _about(text: str, phrases: Sequence[object]) -> bool:
    """Whether ``text`` and ``phrases`` share a content word, in any of its forms, or a number."""
    mine, others = (
        {word[:STEM] for word in words_of(one) if word not in FUNCTION_WORDS}
        for one in (text, " ".join(map(str, phrases)))
    )
    numerals = {str(NUMERALS.index(word)) for word in words_of(text) if word in NUMERALS}
    return not others.isdisjoint(mine | numerals)


def _values(chain: Sequence[CallOutcome], row: int) -> list[object]:
    """The values of a call, and the arguments and results of the lookups that revealed them."""
    values: list[object] = []
    for key, value in leaves(chain[row].arguments):
        values.append(value)
        source = source_of(key, value, chain, row, single=False)
        if source is not None:
            values += [found for _, found in observed(chain[source].observation)] + _values(chain, source)
    return values
