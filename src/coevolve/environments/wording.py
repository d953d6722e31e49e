"""From a chain of calls to an instruction in words.

An instruction names what it asks for and gives only what a person would know: a value that an earlier observation
revealed is described by the lookup that reveals it ("the mail about rent"), never given. Wordings vary over
openers, phrases, descriptions, connectives and closers.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.chains import is_identifier, observed, source_of
from coevolve.core.task import CallOutcome
from coevolve.environments.environment import Phrasebook

OPENERS = ("", "", "please", "could you", "now", "i need you to", "go and", "first")
CLOSERS = ("", "", "please", "thanks", "for me", "if you can")
ASKING = ("who", "what", "when", "where", "which", "how")  # an instruction that begins so takes no verb before it
CONNECTIVES = (" and ", " then ", " , then ", " and also ", " ; after that ")


@dataclass(frozen=True)
class Question:
    """The instruction asks for ``field`` of what call ``position`` of the chain finds."""

    position: int
    field: str


def instruct(
    chain: Sequence[CallOutcome],
    asks: Sequence[int],
    question: Question | None,
    book: Phrasebook,
    rng: random.Random,
) -> str:
    """An instruction that asks for the calls at ``asks`` (in this order) and then ``question``."""
    parts = [_action(chain, position, book, rng) for position in asks]
    if question is not None:
        parts.append(_question(chain, question, book, rng))
    opener, closer = rng.choice(OPENERS), rng.choice(CLOSERS)
    if parts[0].split()[0] in ASKING:
        opener = opener if opener == "now" else ""
    if opener == "please" and closer == "please":
        closer = ""
    connective = rng.choice(CONNECTIVES)
    return " ".join(filter(None, (opener, connective.join(parts), closer)))


def _fill(template: str, described: Mapping[str, str]) -> str:
    for key, words in described.items():
        template = template.replace(f"{{{key}}}", words)
    return template


def _described(chain: Sequence[CallOutcome], position: int, book: Phrasebook, rng: random.Random) -> dict[str, str]:
    """Per argument of a call: its words."""
    found = {}
    for key, value in chain[position].arguments.items():
        source = source_of(key, value, chain, position)
        found[key] = _literal(value) if source is None else _revealed(chain, source, key, value, book, rng)
    return found


def _revealed(
    chain: Sequence[CallOutcome], source: int, key: str, value: Any, book: Phrasebook, rng: random.Random
) -> str:
    """What the lookup at ``source`` finds, or the field of it that holds ``value``."""
    fields = [name for name, found in observed(chain[source].observation) if found == value]
    if is_identifier(key) or key in fields or fields[0] in ("", "id"):
        return _lookup(chain, source, book, rng)
    name = chain[source].name
    templates = _templates(book.fields.get(f"{name}.{fields[0]}", ()), chain[source].arguments)
    if templates:
        return _fill(rng.choice(templates), _described(chain, source, book, rng))
    return f"the {_spaced(fields[0])} of {_lookup(chain, source, book, rng)}"


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


def _action(chain: Sequence[CallOutcome], position: int, book: Phrasebook, rng: random.Random) -> str:
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


def _lookup(chain: Sequence[CallOutcome], position: int, book: Phrasebook, rng: random.Random) -> str:
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


def _question(chain: Sequence[CallOutcome], question: Question, book: Phrasebook, rng: random.Random) -> str:
    call = chain[question.position]
    described = _described(chain, question.position, book, rng)
    templates = _templates(book.questions.get(f"{call.name}.{question.field}", ()), described)
    if templates:
        return _fill(rng.choice(templates), described)
    words = _lookup(chain, question.position, book, rng)
    asked = rng.choice(
        ("tell me the {field} of {thing}", "what is the {field} of {thing}", "find the {field} of {thing}")
    )
    return asked.replace("{field}", _spaced(question.field)).replace("{thing}", words)
