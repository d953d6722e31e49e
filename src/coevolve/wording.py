"""From a chain of calls to an instruction in words.

An instruction names what it asks for and gives only what a person would know: a value that an earlier observation
revealed is described by the lookup that reveals it ("the mail about rent"), never given. Wordings vary over
openers, phrases, descriptions, connectives and closers; the skeleton is the wording with its values taken out.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coevolve.records import CallOutcome

OPENERS = ("", "", "please", "could you", "now", "i need you to", "go and", "first")
CLOSERS = ("", "", "please", "thanks", "for me", "if you can")
ASKING = ("who", "what", "when", "where", "which", "how")  # an instruction that begins so takes no verb before it
CONNECTIVES = (" and ", " then ", " , then ", " and also ", " ; after that ")


@dataclass(frozen=True)
class Phrasebook:
    """How an environment's tools are spoken of; ``{argument}`` stands for an argument's description.

    ``actions``: tool → ways to ask for it. ``lookups``: tool → ways to describe what it finds.
    ``fields``: ``tool.field`` → ways to describe that field of what the lookup finds, and ``questions``: ways to ask
    for it.
    """

    actions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lookups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)
    questions: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    text: str
    skeleton: str


@dataclass(frozen=True)
class Question:
    """The instruction asks for ``field`` of what call ``position`` of the chain finds."""

    position: int
    field: str


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(key, scalar) of a JSON value; items of a list carry the list's key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, key)
    else:
        yield key, value


def observed(text: str) -> list[tuple[str, Any]]:
    """The leaves of an observation; plain text is one leaf without a key."""
    try:
        return list(leaves(json.loads(text)))
    except ValueError:
        return [("", text)]


def is_identifier(key: str) -> bool:
    """Whether an argument of this name takes what only the environment knows."""
    return key.lower().endswith("id")


def source_of(key: str, value: Any, chain: Sequence[CallOutcome], before: int, single: bool = True) -> int | None:
    """Position of the last call before ``before`` that revealed ``value``; None if a person must have given it.

    Numbers coincide easily: they count only where the names agree or the argument is an identifier. A name among
    several that a lookup found (``single``) cannot be described by that lookup, and so is given as well.
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, str) and len(value) < 2):
        return None
    for position in range(before - 1, -1, -1):
        call = chain[position]
        if not call.ok or any(given == value for _, given in leaves(call.arguments)):
            continue
        leaves_found = observed(call.observation)
        for name, found in leaves_found:
            same = found == value and type(found) is type(value)
            if not same or not (isinstance(value, str) or name == key or is_identifier(key)):
                continue
            if is_identifier(key) or not single or _alone(name, leaves_found):
                return position
    return None


def _alone(name: str, found: Sequence[tuple[str, Any]]) -> bool:
    """Whether an observation holds one value of this name."""
    return len({json.dumps(value) for other, value in found if other == name}) == 1


def ambiguous(chain: Sequence[CallOutcome]) -> bool:
    """Whether some identifier is one of several that its lookup found: words cannot say which is meant."""
    for position, call in enumerate(chain):
        for key, value in call.arguments.items():
            source = source_of(key, value, chain, position)
            if source is None:
                continue
            found = observed(chain[source].observation)
            if not any(_alone(name, found) for name, other in found if other == value):
                return True
    return False


def instruct(
    chain: Sequence[CallOutcome],
    asks: Sequence[int],
    question: Question | None,
    book: Phrasebook,
    rng: random.Random,
) -> Wording:
    """An instruction that asks for the calls at ``asks`` (in this order) and then ``question``."""
    parts = [_action(chain, position, book, rng) for position in asks]
    if question is not None:
        parts.append(_question(chain, question, book, rng))
    opener, closer = rng.choice(OPENERS), rng.choice(CLOSERS)
    if parts[0][0].split()[0] in ASKING:
        opener = opener if opener == "now" else ""
    if opener == "please" and closer == "please":
        closer = ""
    connective = rng.choice(CONNECTIVES)
    texts = [" ".join(filter(None, (opener, connective.join(part[kind] for part in parts), closer))) for kind in (0, 1)]
    return Wording(*texts)


def _fill(template: str, described: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    text = skeleton = template
    for key, (words, shape) in described.items():
        text = text.replace(f"{{{key}}}", words)
        skeleton = skeleton.replace(f"{{{key}}}", shape)
    return text, skeleton


def _described(
    chain: Sequence[CallOutcome], position: int, book: Phrasebook, rng: random.Random
) -> dict[str, tuple[str, str]]:
    """Per argument of a call: its words, and their skeleton."""
    found = {}
    for key, value in chain[position].arguments.items():
        source = source_of(key, value, chain, position)
        if source is None:
            found[key] = (_literal(value), f"<{key}>")
        else:
            found[key] = _revealed(chain, source, key, value, book, rng)
    return found


def _revealed(
    chain: Sequence[CallOutcome], source: int, key: str, value: Any, book: Phrasebook, rng: random.Random
) -> tuple[str, str]:
    """What the lookup at ``source`` finds, or the field of it that holds ``value``."""
    fields = [name for name, found in observed(chain[source].observation) if found == value]
    if is_identifier(key) or key in fields or fields[0] in ("", "id"):
        return _lookup(chain, source, book, rng)
    name = chain[source].name
    templates = _templates(book.fields.get(f"{name}.{fields[0]}", ()), chain[source].arguments)
    if templates:
        return _fill(rng.choice(templates), _described(chain, source, book, rng))
    words, shape = _lookup(chain, source, book, rng)
    return f"the {_spaced(fields[0])} of {words}", f"the {_spaced(fields[0])} of {shape}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _templates(templates: Sequence[str], described: Mapping[str, Any]) -> list[str]:
    """Those that speak of exactly the arguments there are."""
    return [
        one for one in templates if all(f"{{{key}}}" in one for key in described) and one.count("{") == len(described)
    ]


def _spaced(name: str) -> str:
    return name.rsplit(".", 1)[-1].replace("_", " ")


def _listed(described: Mapping[str, Any]) -> str:
    return ", ".join(f"{_spaced(key)} {{{key}}}" for key in described)


def _action(chain: Sequence[CallOutcome], position: int, book: Phrasebook, rng: random.Random) -> tuple[str, str]:
    described = _described(chain, position, book, rng)
    name = chain[position].name
    templates = _templates(book.actions.get(name, ()), described)
    if not templates:
        verb, listed = _spaced(name), _listed(described)
        templates = (
            [f"{verb} with {listed}", f"do {verb} using {listed}", f"{verb} ({listed})"]
            if described
            else [verb, f"do {verb}", f"run {verb}"]
        )
    return _fill(rng.choice(templates), described)


def _lookup(chain: Sequence[CallOutcome], position: int, book: Phrasebook, rng: random.Random) -> tuple[str, str]:
    described = _described(chain, position, book, rng)
    name = chain[position].name
    templates = _templates(book.lookups.get(name, ()), described)
    if not templates:
        thing, listed = _spaced(name), _listed(described)
        templates = (
            [f"the one that {thing} gives for {listed}", f"what {thing} with {listed} returns"]
            if described
            else [f"the one that {thing} gives", f"what {thing} returns"]
        )
    return _fill(rng.choice(templates), described)


def _question(
    chain: Sequence[CallOutcome], question: Question, book: Phrasebook, rng: random.Random
) -> tuple[str, str]:
    call = chain[question.position]
    described = _described(chain, question.position, book, rng)
    templates = _templates(book.questions.get(f"{call.name}.{question.field}", ()), described)
    if templates:
        return _fill(rng.choice(templates), described)
    words, shape = _lookup(chain, question.position, book, rng)
    asked = rng.choice(
        ("tell me the {field} of {thing}", "what is the {field} of {thing}", "find the {field} of {thing}")
    )
    field_words = _spaced(question.field)
    return (
        asked.replace("{field}", field_words).replace("{thing}", words),
        asked.replace("{field}", field_words).replace("{thing}", shape),
    )
