"""Describe a chain of calls by an instruction in words, or by a pattern of all possible instructions.

An instruction gives only values that a person would know. If an earlier observation revealed a value, the instruction describes
the lookup that reveals it ("the mail about rent") instead. Wordings vary over openers, phrases, descriptions, connectives and
closers. One grammar serves both purposes: a voice that chooses among alternatives makes an instruction, and a voice that keeps
every alternative makes the pattern.
"""

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coevolve.core.task import CallOutcome
from coevolve.environments.chains import is_identifier, observed, source_of
from coevolve.environments.environment import Phrasebook
from coevolve.environments.lexicon import tolerant

OPENERS = ("", "", "please", "could you", "now", "i need you to", "go and", "first")
CLOSERS = ("", "", "please", "thanks", "for me", "if you can")
ASKING = (
    "who",
    "what",
    "when",
    "where",
    "which",
    "how",
)  # no verb precedes an instruction that begins with one of these
CONNECTIVES = (" and ", " then ", " , then ", " and also ", " ; after that ")
ARTICLE = r"(?:(?:an?|the|my|our|your) )?"
SLOT = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Question:
    """The instruction asks for ``field`` of the result of call ``position`` of the chain."""

    position: int
    field: str


class _Voice(Protocol):
    def one_of(self, alternatives: Sequence[str]) -> str: ...

    def plain(self, text: str) -> str: ...

    def value(self, text: str) -> str: ...

    def by_name(self, text: str) -> str:
        """Take ``text``, which describes a tool by its name because the book has no phrase."""
        ...


@dataclass(frozen=True)
class _Speaker:
    rng: random.Random

    def one_of(self, alternatives: Sequence[str]) -> str:
        return self.rng.choice(alternatives)

    def plain(self, text: str) -> str:
        return text

    def value(self, text: str) -> str:
        return text

    def by_name(self, text: str) -> str:
        return text


class PhraseListener:
    """A voice whose words are regular expressions. A value may have an article.

    ``spare``: UNHEARD may stand for any word of a phrase. ``guess``: any words may describe a tool without a phrase.
    """

    def __init__(self, spare: bool = False, guess: bool = False) -> None:
        self.phrased = True
        self._spare = spare
        self._guess = guess

    def one_of(self, alternatives: Sequence[str]) -> str:
        return f"(?:{'|'.join(dict.fromkeys(alternatives))})"

    def plain(self, text: str) -> str:
        return tolerant(text) if self._spare else re.escape(text)

    def value(self, text: str) -> str:
        return ARTICLE + self.plain(text)

    def by_name(self, text: str) -> str:
        self.phrased = False
        return f"(?:{text}|.+?)" if self._guess else text


def instruct(
    chain: Sequence[CallOutcome],
    asks: Sequence[int],
    question: Question | None,
    book: Phrasebook,
    rng: random.Random,
) -> str:
    """An instruction that asks for the calls at ``asks`` (in this order) and then ``question``."""
    parts = _parts(chain, asks, question, book, _Speaker(rng))
    opener, closer = rng.choice(OPENERS), rng.choice(CLOSERS)
    if parts[0].split()[0] in ASKING:
        opener = opener if opener == "now" else ""
    if opener == "please" and closer == "please":
        closer = ""
    connective = rng.choice(CONNECTIVES)
    return " ".join(filter(None, (opener, connective.join(parts), closer)))


def instructions(
    chain: Sequence[CallOutcome],
    asks: Sequence[int],
    questions: Sequence[Question],
    book: Phrasebook,
    listener: PhraseListener,
) -> re.Pattern[str]:
    """A pattern of all texts of ``instruct`` for the calls at ``asks`` and then, if there are any, one of ``questions``.

    Afterwards ``listener.phrased`` says whether ``book`` has phrases for all of them.
    """
    asked: Sequence[Question | None] = questions or [None]
    endings = [_parts(chain, asks, question, book, listener) for question in asked]
    connective = listener.one_of([listener.plain(one) for one in CONNECTIVES])
    pattern = framed(listener.one_of([connective.join(parts) for parts in endings]), listener)
    return re.compile(pattern, re.IGNORECASE)


def framed(goals: str, listener: PhraseListener) -> str:
    """The pattern of an instruction, between an opener and a closer, whose goals match the pattern ``goals``."""
    opener, closer = (
        listener.one_of([listener.plain(phrase) for phrase in phrases if phrase]) for phrases in (OPENERS, CLOSERS)
    )
    return f"(?:{opener} )?{goals}(?: {closer})?"


def _parts(
    chain: Sequence[CallOutcome], asks: Sequence[int], question: Question | None, book: Phrasebook, voice: _Voice
) -> list[str]:
    parts = [_action(chain, position, book, voice) for position in asks]
    return parts if question is None else [*parts, _question(chain, question, book, voice)]


def fill(template: str, described: Mapping[str, str], voice: _Voice) -> str:
    pieces = SLOT.split(template)  # text and slots alternate
    return "".join(described[piece] if place % 2 else voice.plain(piece) for place, piece in enumerate(pieces))


def _chosen(templates: Sequence[str], described: Mapping[str, str], voice: _Voice) -> str:
    return voice.one_of([fill(template, described, voice) for template in templates])


def _described(chain: Sequence[CallOutcome], position: int, book: Phrasebook, voice: _Voice) -> dict[str, str]:
    """The words for each argument of a call."""
    found = {}
    for key, value in chain[position].arguments.items():
        source = source_of(key, value, chain, position)
        found[key] = (
            voice.value(_literal(value)) if source is None else _revealed(chain, source, key, value, book, voice)
        )
    return found


def _revealed(chain: Sequence[CallOutcome], source: int, key: str, value: Any, book: Phrasebook, voice: _Voice) -> str:
    """The words for the result of the lookup at ``source``, or for its field that holds ``value``."""
    fields = [name for name, found in observed(chain[source].observation) if found == value]
    if is_identifier(key) or key in fields or fields[0] in ("", "id"):
        return _lookup(chain, source, book, voice)
    name = chain[source].name
    templates = _templates(book.fields.get(f"{name}.{fields[0]}", ()), chain[source].arguments)
    if templates:
        return _chosen(templates, _described(chain, source, book, voice), voice)
    return f"{voice.plain(f'the {spaced(fields[0])} of ')}{_lookup(chain, source, book, voice)}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _templates(templates: Sequence[str], described: Mapping[str, Any]) -> list[str]:
    """The templates with exactly these arguments."""
    return [
        one for one in templates if all(f"{{{key}}}" in one for key in described) and one.count("{") == len(described)
    ]


def spaced(name: str) -> str:
    return name.rsplit(".", 1)[-1].replace("_", " ")


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(f"{spaced(key)} {{{key}}}" for key in keys)


def _plain_actions(name: str, keys: Sequence[str]) -> list[str]:
    """Ways to ask for a tool without phrases."""
    verb, listed = spaced(name), _listed(keys)
    return (
        [f"{verb} with {listed}", f"do {verb} using {listed}", f"{verb} ({listed})"]
        if keys
        else [verb, f"do {verb}", f"run {verb}"]
    )


def _action(chain: Sequence[CallOutcome], position: int, book: Phrasebook, voice: _Voice) -> str:
    described = _described(chain, position, book, voice)
    name = chain[position].name
    templates = _templates(book.actions.get(name, ()), described)
    if templates:
        return _chosen(templates, described, voice)
    return voice.by_name(_chosen(_plain_actions(name, list(described)), described, voice))


def _lookup(chain: Sequence[CallOutcome], position: int, book: Phrasebook, voice: _Voice) -> str:
    described = _described(chain, position, book, voice)
    name = chain[position].name
    templates = _templates(book.lookups.get(name, ()), described)
    if templates:
        return _chosen(templates, described, voice)
    thing, listed = spaced(name), _listed(list(described))
    named = (
        [f"the one that {thing} gives for {listed}", f"what {thing} with {listed} returns"]
        if described
        else [f"the one that {thing} gives", f"what {thing} returns"]
    )
    return voice.by_name(_chosen(named, described, voice))


def _question(chain: Sequence[CallOutcome], question: Question, book: Phrasebook, voice: _Voice) -> str:
    call = chain[question.position]
    described = _described(chain, question.position, book, voice)
    templates = _templates(book.questions.get(f"{call.name}.{question.field}", ()), described)
    if templates:
        return _chosen(templates, described, voice)
    thing = {"thing": _lookup(chain, question.position, book, voice)}
    field = spaced(question.field)
    asked = [f"tell me the {field} of {{thing}}", f"what is the {field} of {{thing}}", f"find the {field} of {{thing}}"]
    return _chosen(asked, thing, voice)
