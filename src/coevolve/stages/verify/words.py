"""Check without a model that an instruction asks for the calls of its reference.

If an instruction and its reference disagree but both are possible, the other gates cannot notice it. This gate has three
outcomes: passed, failed, and not checked if none of these rules decides:

- If the environment can parse the words (``Environment.reading``), the parsed calls must pass the checker.
- If the words are in the language of the environment's phrasebook, the phrasebook must describe the reference by them.
- If the environment's lexicon (``Environment.meaning``) knows all words, each word must match the reference, and the words
  must cover the reference.
- If the words would be in the environment's language without an unknown word or a negation, or with another word instead,
  they fail. Words that forbid also fail, and words that mention nothing of the reference.
- Any words fail (only with ``values``, or if the phrasebook has all words) in three cases: they omit a value that only the
  user could give, name a value that no call uses, or contain a phrase for a tool that the reference does not call. With
  ``values``, words without any of these complaints pass, if there is something to compare.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain as joined
from itertools import combinations

from coevolve.core.confusables import latin
from coevolve.core.records import Candidate, Gate
from coevolve.core.seeding import rng_for
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.chains import leaves, observed, precondition, source_of
from coevolve.environments.environment import Environment, Phrasebook, Session
from coevolve.environments.lexicon import NUMERALS, SILENT, UNHEARD, Meaning, hear, unfitting
from coevolve.environments.manner import phrases_of
from coevolve.environments.phrase_generator import (
    SLOT,
    PhraseListener,
    Question,
    Undescribable,
    instruct,
    instructions,
    spaced,
)
from coevolve.environments.phrase_parser import bare, phrases_in, spoken
from coevolve.stages.verify.foreign_words import (
    FUNCTION_WORDS,
    alike,
    cut,
    forbids,
    normal,
    shortened,
    unknown_words,
    variants,
    vocabulary,
    words_of,
)
from coevolve.stages.verify.named_values import comparable, undone, unnamed, unused, within

NAME = "words_match"
FOREIGN, COMMON = (
    0.4,
    0.2,
)  # a text with a larger share of unknown words and a smaller share of function words is no sentence
OPTIONAL = 3  # most calls that the words may omit in any combination


@dataclass(frozen=True, slots=True)
class Played:
    """A replayed reference: its calls, which of them changed the state, and whether the last call ended the episode."""

    chain: Sequence[CallOutcome]
    changed: Sequence[bool]
    ended: bool


def words_match(environment: Environment, session: Session, candidate: Candidate, played: Played, values: bool) -> Gate:
    """Whether the words of ``candidate`` ask for its replayed reference. ``passed`` is None if no rule decides."""
    instruction = _Instruction(environment, session, candidate, played)
    for complaint in _complaints(instruction, values):
        if complaint is not None:
            return Gate(NAME, not complaint, complaint)
    return Gate(NAME, None, instruction.unchecked(values))


def speaks_of(environment: Environment, chain: Sequence[CallOutcome], row: int, text: str) -> bool | None:
    """Whether ``text`` has a word of the phrases or values of the call at ``row``.

    A tool without phrases has only its name. A text without that name may describe the call in other words: None.
    """
    name = chain[row].name
    templates = environment.phrasebook.actions.get(name)
    if not templates:
        return within(words_of(spaced(name)), words_of(text)) or None
    return _about(text, [*(SLOT.sub(" ", template) for template in templates), *_values(chain, row)])


def _complaints(instruction: "_Instruction", values: bool) -> Iterator[str | None]:
    """The verdict of each rule: a complaint, "" if the words match, or None if the rule does not decide."""
    task, environment = instruction.task, instruction.environment
    reading = environment.reading(task)
    if reading is not None:
        yield _played(instruction.session, task, reading)
    if instruction.described(instruction.text):
        yield ""
    if instruction.has_language and (prohibition := forbids(latin(instruction.text))):
        yield f"forbids with {prohibition!r} what its reference does"
    yield instruction.other_sentence()
    yield instruction.foreign()
    if instruction.meaning is not None:
        yield unfitting(instruction.text, instruction.meaning, values)
    yield instruction.silent()
    if values or (environment.phrasebook.actions and not instruction.unknown):
        complaint = next(_doubts(instruction, values), "")
        yield complaint if complaint or (values and instruction.compares) else None


class _Instruction:
    """A candidate's words with its replayed reference."""

    def __init__(self, environment: Environment, session: Session, candidate: Candidate, played: Played) -> None:
        self.environment = environment
        self.session = session
        self.task = candidate.task
        self.chain = played.chain
        self.changed = played.changed
        self.text = "\n".join(self.task.turns)
        self.meaning: Meaning | None = environment.meaning(self.task)
        self.asks, self.questions = _asked(session, candidate, played)
        self.answers_unasked = played.ended and bool(self.asks) and len(played.chain) - 1 in self.asks[0]

    @property
    def has_language(self) -> bool:
        """Whether the environment defines the words that it understands."""
        return self.meaning is not None or bool(self.environment.phrasebook.actions)

    @property
    def comparable(self) -> bool:
        """Whether the phrase generator could describe the reference."""
        return len(self.task.turns) == 1 and bool(self.asks)

    @cached_property
    def unknown(self) -> list[str]:
        """The words that the environment's language lacks."""
        if self.meaning is not None:
            return list(hear(self.text, self.meaning.lexicon).unknown)
        context = " ".join(str(value) for row in range(len(self.chain)) for value in _values(self.chain, row))
        return unknown_words(self.text, vocabulary(self.environment) | set(words_of(context)))

    def pattern(self, listener: PhraseListener) -> re.Pattern[str]:
        """A pattern of every sentence that describes the reference, by the phrasebook and the words of training tasks."""
        book = phrases_of(self.environment)
        try:
            patterns = [instructions(self.chain, asks, self.questions, book, listener).pattern for asks in self.asks]
        except Undescribable:
            patterns = ["(?!)"]
        return re.compile("|".join(patterns), re.IGNORECASE)

    @cached_property
    def _described(self) -> re.Pattern[str]:
        return self.pattern(PhraseListener())

    @cached_property
    def _nearly(self) -> re.Pattern[str]:
        return self.pattern(PhraseListener(spare=True))

    def _forms(self, text: str) -> list[str]:
        """``text`` and, for a phrasebook, its form without courtesies and commas."""
        return [bare(text), *([normal(bare(text))] if self.environment.phrasebook.actions else [])]

    def described(self, text: str) -> bool:
        """Whether the phrase generator could describe the reference by ``text``."""
        return self.comparable and any(self._described.fullmatch(form) for form in (text, *self._forms(text)))

    def other_sentence(self) -> str | None:
        """The complaint about a sentence of the language that does not describe the reference."""
        if not self.comparable or not any(spoken(form, self.environment) for form in self._forms(self.text)):
            return None
        listener = PhraseListener(guess=bool(self.environment.phrasebook.actions) and not self.answers_unasked)
        guess = self.pattern(listener)
        if not listener.phrased and any(guess.fullmatch(form) for form in self._forms(self.text)):
            return None
        rng = rng_for("what a reference does, in words", self.task.task_id)
        question = self.questions[0] if self.questions else None
        does = instruct(self.chain, self.asks[0], question, phrases_of(self.environment), rng)
        return f"says {cut(self.text)}, but the words for its reference are {cut(does)}"

    def foreign(self) -> str | None:
        """The complaint about a foreign word in a sentence that is otherwise in the language."""
        unknown = self.unknown if self.has_language else []
        spellings = dict.fromkeys((self.text, latin(self.text)))
        for text, word in joined.from_iterable(variants(spelling, unknown) for spelling in spellings):
            if self._in_language(text, contradicted=not unknown):
                return f"says {cut(word)}, which its language does not allow there"
        for text, word in shortened(self.text):
            if self._means_something(word) and (self._asks_for_reference(text) or self.described(text)):
                return f"says {cut(word)}, which its reference does not do"
        book = self.environment.phrasebook
        own = words_of(" ".join(map(str, _phrases(book, self.chain)))) if self.comparable and book.actions else ()
        for form in self._forms(self.text) if own else ():
            for text, word in shortened(form, UNHEARD):
                if self._means_something(word) and not alike([word.lower()], own) and self._nearly.fullmatch(text):
                    return f"says {cut(word)}, but its language describes the reference by another word there"
        return None

    def _means_something(self, word: str) -> bool:
        senses = self.meaning.lexicon.get(word.lower(), ()) if self.meaning is not None else ()
        return word.lower() not in FUNCTION_WORDS and not any(SILENT in one for one in senses)

    def _asks_for_reference(self, text: str) -> bool:
        """Whether the environment reads the reference from ``text``."""
        reading = self.environment.reading(replace(self.task, turns=[text]))
        return reading is not None and not _played(self.session, self.task, reading)

    def _in_language(self, text: str, contradicted: bool) -> bool:
        """Whether ``text`` is a sentence of the language. With ``contradicted``, a parsable text must ask for the reference."""
        reading = self.environment.reading(replace(self.task, turns=[text]))
        if reading is not None:
            return not contradicted or not _played(self.session, self.task, reading)
        book = bool(self.environment.phrasebook.actions)
        return self.comparable and any(
            self._nearly.fullmatch(form) is not None or (book and spoken(form, self.environment))
            for form in self._forms(text)
        )

    def silent(self) -> str | None:
        """The complaint about words that mention no call of the reference, or not the question that it answers."""
        words = words_of(self.text)
        common = sum(word in FUNCTION_WORDS for word in words)
        if self.has_language and len(self.unknown) > FOREIGN * len(words) and common < COMMON * len(words):
            return f"is no sentence: its language lacks {len(self.unknown)} of {len(words)} words"
        if self.meaning is not None:
            said = frozenset().union(*(senses for _, senses in hear(self.text, self.meaning.lexicon).phrases))
            unsaid = [senses for senses in self.meaning.must if not senses & said]
            if len(unsaid) > len(self.unknown):
                return f"does not say {' or '.join(sorted(unsaid[0]))!r}, and has too few unknown words to say all that is missing"
        for row in {row for rows in self.asks[:1] for row in rows if self.changed[row]}:
            if speaks_of(self.environment, self.chain, row, self.text) is False:
                return f"says nothing of {self.chain[row].name}, which its reference calls"
        if self.questions and not any(self._about_question(question) for question in self.questions):
            return f"does not ask for {self.questions[0].field!r}, which its reference answers"
        return None

    def _about_question(self, question: Question) -> bool:
        """Whether the words contain a word of ``question``. Always true without phrases for it."""
        call = self.chain[question.position]
        templates = self.environment.phrasebook.questions.get(f"{call.name}.{question.field}")
        if not templates:
            return True
        phrases = [question.field, *(SLOT.sub(" ", template) for template in templates)]
        return _about(self.text, [*phrases, *_values(self.chain, question.position)])

    @property
    def asked(self) -> list[CallOutcome]:
        """The calls whose values the words must name."""
        rows = self.asks[0] if self.asks else []
        return [call for row, call in enumerate(self.chain) if row in rows or not self.changed[row]]

    @property
    def compares(self) -> bool:
        """Whether the rules for any words have something to compare: a value, a number or a phrase."""
        phrases = phrases_in(self.text, self.environment.phrasebook)
        return comparable(self.text, self.environment, self.chain, self.asked) or any(True for _ in phrases)

    def unchecked(self, values: bool) -> str:
        """The reason why no rule decides."""
        if values and not self.compares:
            return "its words and the calls that they must name have no names or numbers to compare"
        if not self.has_language:
            return f"{self.environment.name} has no phrasebook; `verify.words: values` compares names and numbers"
        if self.unknown:
            return f"has words that its language lacks: {cut(', '.join(self.unknown))}"
        if len(self.task.turns) > 1:
            return f"{len(self.task.turns)} turns, and its language describes one"
        return "is no sentence of its language, which has all of its words"


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
    return f"its words ask for {cut(calls)}, which fails"


def _asked(session: Session, candidate: Candidate, played: Played) -> tuple[list[list[int]], list[Question]]:
    """Each possible set of calls that the instruction may ask for, and the questions that the last call may answer.

    An instruction must ask for the calls that change the state, except calls that only enable a later call: it may ask for
    those. ``asks`` can only add requirements: the words must mention a change that it claims. If no call ends the episode,
    the user may want the result of a lookup. Then nothing is known without ``asks``, and the words must mention its lookups.
    """
    task, chain, changed = candidate.task, played.chain, played.changed
    last = len(chain) - 1
    positions = {position: row for row, position in enumerate(task.positions[: len(chain)])}
    claimed = {positions[position] for asked in candidate.asks if (position := tuple(asked)) in positions}
    if not played.ended and not claimed:
        return [], []
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
    must = {row for row in rows if row not in optional} | (set() if played.ended else claimed)
    if not must and not ending:
        must = {last}
    sizes = range(len(optional) + 1) if len(optional) <= OPTIONAL else (0, len(optional))
    choices = joined.from_iterable(combinations(optional, size) for size in sizes)
    asks = [sorted({*must, *choice}) for choice in choices]
    return [rows for rows in asks if rows or answered], answered


def _about(text: str, phrases: Sequence[object]) -> bool:
    """Whether ``text`` and ``phrases`` share a content word or a number."""
    words = set(words_of(" ".join(map(str, phrases)))) - FUNCTION_WORDS
    mine = [str(NUMERALS.index(word)) if word in NUMERALS else word for word in words_of(text)]
    return alike([word for word in mine if word not in FUNCTION_WORDS], words)


def _phrases(book: Phrasebook, chain: Sequence[CallOutcome]) -> Iterator[object]:
    """The phrases of ``book`` for the calls of ``chain``, and all values of those calls."""
    for row, call in enumerate(chain):
        for part in (book.actions, book.lookups, book.fields, book.questions):
            for key, templates in part.items():
                if key.partition(".")[0] == call.name:
                    yield from (SLOT.sub(" ", template) for template in templates)
        yield from _values(chain, row)


def _values(chain: Sequence[CallOutcome], row: int) -> list[object]:
    """The values of a call, and the arguments and results of the lookups that revealed them."""
    values: list[object] = []
    for key, value in leaves(chain[row].arguments):
        values.append(value)
        source = source_of(key, value, chain, row, single=False)
        if source is not None:
            values += [found for _, found in observed(chain[source].observation)] + _values(chain, source)
    return values


def _doubts(instruction: _Instruction, phrases: bool) -> Iterator[str]:
    """The complaints of the rules for any words; with ``phrases``, also those about phrases."""
    text, environment, chain = instruction.text, instruction.environment, instruction.chain
    offered = {schema["function"]["name"] for schema in instruction.session.reset(instruction.task).tools or ()}
    yield from unnamed(text, chain, instruction.asked)
    yield from unused(text, environment, chain)
    if phrases:
        yield from undone(text, environment, chain, offered)
