"""Describe a chain of calls by an instruction in words, or by a pattern of all possible instructions.

An instruction gives only values that a person would know. If an earlier observation revealed a value, the instruction describes
the lookup that reveals it ("the mail about rent") instead. Wordings vary over openers, phrases, descriptions, connectives and
closers. One grammar serves both purposes: a voice that chooses among alternatives makes an instruction, and a voice that keeps
every alternative makes the pattern.
"""

import json
import random
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from coevolve.core.task import CallOutcome
from coevolve.environments.chains import KEY, VALUE, Origin, is_identifier, observed, origin_of, paths, told_by
from coevolve.environments.environment import Phrasebook

ASKING = (
    "who",
    "what",
    "when",
    "where",
    "which",
    "how",
)  # no verb precedes an instruction that begins with one of these
ARTICLE = r"(?:(?:an?|the|my|our|your) )?"
SLOT = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Question:
    """The instruction asks for ``field`` of the result of call ``position`` of the chain."""

    position: int
    field: str


@dataclass(frozen=True)
class _Voice:
    """Chooses one of several wordings."""

    rng: random.Random

    def one_of(self, alternatives: Sequence[str]) -> str:
        return self.rng.choice(alternatives)

    def plain(self, text: str) -> str:
        return text

    def value(self, text: str) -> str:
        return self.plain(text)


class _Listener(_Voice):
    """A voice that keeps all wordings, as regular expressions. A value may have an article."""

    def one_of(self, alternatives: Sequence[str]) -> str:
        return f"(?:{'|'.join(dict.fromkeys(alternatives))})"

    def plain(self, text: str) -> str:
        return re.escape(text)

    def value(self, text: str) -> str:
        return ARTICLE + self.plain(text)


def instruct(
    chain: Sequence[CallOutcome],
    asks: Sequence[int],
    question: Question | None,
    book: Phrasebook,
    rng: random.Random,
) -> str:
    """An instruction that asks for the calls at ``asks`` (in this order) and then ``question``.

    Raises Undescribable if a value comes from an earlier call and no words tell it from the call's other results, and if
    words are missing that are not to be made up in English.
    """
    parts = _parts(chain, asks, question, book, _Voice(rng))
    opener, closer = rng.choice(book.openers), rng.choice(book.closers)
    if parts[0].split()[0] in ASKING:
        opener = opener if opener == "now" else ""
    if opener == "please" and closer == "please":
        closer = ""
    return " ".join(filter(None, (opener, _joined(parts, rng.choice(book.connectives or [""]), book, chain), closer)))


def instructions(
    chain: Sequence[CallOutcome], asks: Sequence[int], question: Question | None, book: Phrasebook
) -> re.Pattern[str]:
    """A pattern of all texts of ``instruct`` for the calls at ``asks`` and then ``question``."""
    listener = _Listener(random.Random(0))
    connective = listener.one_of([listener.plain(one) for one in book.connectives])
    goals = _joined(_parts(chain, asks, question, book, listener), connective, book, chain)
    opener, closer = (
        listener.one_of([listener.plain(phrase) for phrase in phrases if phrase] or ["(?!)"])
        for phrases in (book.openers, book.closers)
    )
    return re.compile(f"(?:{opener} )?{goals}(?: {closer})?", re.IGNORECASE)


def _joined(parts: Sequence[str], connective: str, book: Phrasebook, chain: Sequence[CallOutcome]) -> str:
    if book.complete or len(parts) == 1:
        return connective.join(parts)
    ends = re.compile(r"\\?[.!。！]$")
    first, *others = (part if number == len(parts) - 1 else ends.sub("", part) for number, part in enumerate(parts))
    given = (value for call in chain for _, value in [*paths(call.arguments), *observed(call.observation)])
    names = tuple(value for value in given if isinstance(value, str) and value)
    lower = [
        part if re.match(r"I\b|[A-Z]{2}", part) or part.startswith(names) else part[:1].lower() + part[1:]
        for part in others
    ]
    return connective.join([(", " if book.english else connective).join([first, *lower[:-1]]), lower[-1]])


def _parts(
    chain: Sequence[CallOutcome], asks: Sequence[int], question: Question | None, book: Phrasebook, voice: _Voice
) -> list[str]:
    if len(asks) + (question is not None) > 1 and not book.connectives:
        raise Undescribable("no words join two requests")
    parts = [_action(chain, row, book, voice, asks[:number]) for number, row in enumerate(asks)]
    return parts if question is None else [*parts, _question(chain, question, book, voice)]


def fill(template: str, described: Mapping[str, str], voice: _Voice) -> str:
    pieces = SLOT.split(template)  # text and slots alternate
    return "".join(described[piece] if place % 2 else voice.plain(piece) for place, piece in enumerate(pieces))


def _chosen(templates: Sequence[str], described: Mapping[str, str], voice: _Voice) -> str:
    known = [template for template in templates if described.keys() >= set(SLOT.findall(template))]
    if not known:
        raise Undescribable("no phrase says it")
    return voice.one_of([fill(template, described, voice) for template in known])


def _described(
    chain: Sequence[CallOutcome], position: int, book: Phrasebook, voice: _Voice, earlier: Sequence[int] = ()
) -> dict[str, str]:
    """The words for each slot of a call. The instruction has already asked for the calls at ``earlier``."""
    found = _slots(chain, position, book, voice)
    for key, value in paths(chain[position].arguments):
        del found[key]
        with suppress(Undescribable):  # a phrase may do without this description
            found[key] = _argument(chain, position, key, value, book, voice, earlier)
    return found


def _slots(
    chain: Sequence[CallOutcome], position: int, book: Phrasebook, voice: _Voice, before: str = ""
) -> dict[str, str]:
    """The words for the slots that need no description. ``before`` is the prefix of the call's arguments."""
    found: dict[str, str] = {}
    for path, value in paths(chain[position].arguments):
        slot = before + path
        found |= {slot: voice.value(_literal(value)), constant(slot, value): ""}
        if origin := told_by(path, value, chain, position, book.revealed):
            name = chain[origin.position].name
            found |= {f"{slot}.{key}": voice.value(_literal(one)) for key, one in origin.distinct.items()}
            found |= {**_slots(chain, origin.position, book, voice, f"{name}."), name: ""}
    return found


def constant(slot: str, value: Any) -> str:
    """The slot that restricts a phrase to ``value``."""
    return f"{slot}={json.dumps(value, ensure_ascii=False)}".translate({ord("{"): "(", ord("}"): ")"})


def fits(template: str, chain: Sequence[CallOutcome], position: int, revealed: Collection[str]) -> bool:
    """Whether the slots of ``template`` give every value of the call at ``position``, and nothing else."""
    slots = SLOT.findall(template)
    return _given(frozenset(slots), chain, position, revealed) == set(slots)


def _given(
    slots: frozenset[str],
    chain: Sequence[CallOutcome],
    position: int,
    revealed: Collection[str],
    before: str = "",
) -> set[str] | None:
    """The ``slots`` that give the values of a call; None if a value is missing."""
    used: set[str] = set()
    for path, value in paths(chain[position].arguments):
        slot = before + path
        if direct := {slot, constant(slot, value)} & slots:
            used |= direct
            continue
        origin = told_by(path, value, chain, position, revealed)
        if origin is None:
            return None
        name = chain[origin.position].name
        beside = {f"{slot}.{key}" for key in origin.distinct} & slots
        inner = _given(slots, chain, origin.position, revealed, f"{name}.")
        marker = {name} & slots if inner == set() else set()
        if inner is None or not (origin.alone or beside) or not (beside or inner or marker):
            return None
        used |= beside | inner | marker
    return used


def _origin(key: str, value: Any, chain: Sequence[CallOutcome], position: int, book: Phrasebook) -> Origin | None:
    """Where the lookup that an instruction describes instead of ``value`` revealed it; None if the instruction says the value.

    By a complete book, every value is left to a lookup that shows no other of its kind.
    """
    if not book.complete:
        return told_by(key, value, chain, position, book.revealed)
    origin = origin_of(key, value, chain, position)
    return origin if origin and (origin.alone or is_identifier(key)) else None


def _argument(
    chain: Sequence[CallOutcome],
    position: int,
    key: str,
    value: Any,
    book: Phrasebook,
    voice: _Voice,
    earlier: Sequence[int],
) -> str:
    """The words for an argument: its value, or a description of the result that holds it."""
    noun = noun_of(key, chain[position].name)
    origin = _origin(key, value, chain, position, book)
    if _mentioned(chain, position, key, value, book, earlier):
        return voice.plain(f"that {noun}")
    if origin is None:
        literal = voice.value(_literal(value))
        if book.complete:
            return literal
        named = is_identifier(key) and book.english
        ways = book.lookups.get(key) or (f"{noun} {{{key}}}" if named else f"{{{key}}}",)
        return _chosen(ways, {key: literal}, voice)
    lookup = chain[origin.position]
    described = _described(chain, origin.position, book, voice)
    things = _fitting(book.lookups.get(lookup.name, ()), chain, origin.position, book)
    # the value stands for the thing that was found: `booking` for what `find_booking` finds
    is_thing = is_identifier(key) or origin.field in ("", "id", KEY, noun_of("id", lookup.name))
    if is_thing and (origin.alone or book.complete) and things:
        return _chosen(things, described, voice)
    known = _fitting(book.fields.get(f"{lookup.name}.{origin.field}", ()), chain, origin.position, book)
    if known or not book.english:
        return _chosen(known, described, voice)
    if is_thing:
        return _chosen(_things(noun, origin, lookup, book), described, voice)
    owners = things or _things(noun_of("id", lookup.name), origin, lookup, book)
    return _chosen([f"the {spaced(origin.field)} of {one}" for one in owners], described, voice)


def _mentioned(
    chain: Sequence[CallOutcome], position: int, key: str, value: Any, book: Phrasebook, earlier: Sequence[int]
) -> bool:
    """Whether the instruction has named this identifier before, and no other of its kind: a call at ``earlier`` takes it
    or returned it.

    A complete book describes it again, and so does one that is not in English.
    """
    if book.complete or not book.english or not earlier or not is_identifier(key):
        return False
    origin = _origin(key, value, chain, position, book)
    taken = [
        one
        for row in earlier
        for path, one in paths(chain[row].arguments)
        if is_identifier(path) and noun_of(path, chain[row].name) == noun_of(key, chain[position].name)
    ]
    return all(one == value for one in taken) if taken else origin is not None and origin.position in earlier


def _things(noun: str, origin: Origin, lookup: CallOutcome, book: Phrasebook) -> list[str]:
    """Templates for a value that ``lookup`` reveals and that no phrase describes."""
    if not book.complete:
        return [_thing(noun, origin, lookup)]
    listed = ", ".join(f"{spaced(key)} {{{key}}}" for key, _ in paths(lookup.arguments))
    name = spaced(lookup.name)
    if not listed:
        return [f"the one that {name} gives", f"what {name} returns"]
    return [f"the one that {name} gives for {listed}", f"what {name} with {listed} returns"]


def _thing(noun: str, origin: Origin, lookup: CallOutcome) -> str:
    """A template for a value that ``lookup`` reveals."""
    keys = [path for path, _ in paths(lookup.arguments)]
    things = f"{{{keys[0]}}}" if len(keys) == 1 else ""
    finds = noun in re.sub(
        r"s\b", "", spaced(lookup.name)
    )  # whether it finds such things, and not other things that hold them
    if things and (len(noun) < 3 or (finds and keys[0].endswith(("name", "title")))):  # `where_is` ends with no noun
        thing = things
    elif things and finds and keys[0] == noun:
        thing = f"the {noun} {things}"
    else:
        thing = f"the {noun} for {_listed([f'{{{key}}}' for key in keys])}" if keys else f"the only {noun}"
    if origin.alone:
        return thing
    beside = [(name, one) for name, one in origin.distinct.items() if not is_identifier(name)]
    if not beside:
        raise Undescribable(f"no words tell one {noun} from the others")
    name, value = beside[0]
    if name == VALUE:
        return f"the {_literal(value)} {noun}"
    thing = thing if keys else f"the {noun}"
    return f"{thing} whose {spaced(name)} is {_literal(value)}"


class Undescribable(Exception):
    """No words describe a call or a value of it."""


def noun_of(key: str, tool: str) -> str:
    """The thing that an argument names: ``ticket`` for ``ticket_id``, ``guest name`` for ``guest.name``."""
    words = [spaced(part.rstrip("0123456789")) for part in re.sub(r"s\.\d+$", "", key).split(".") if not part.isdigit()]
    words = words[-2:] if words[-1] in ("name", "id", "kind", "type") else words[-1:]
    noun = re.sub(r"\s*\bids?$|(?<=\w)ids?$", "", " ".join(words)) if is_identifier(key) else " ".join(words)
    return noun or spaced(tool).split()[-1]


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and not any(isinstance(one, dict | list) for one in value):
        return _listed([_literal(one) for one in value])
    return json.dumps(value, ensure_ascii=False)


def _fitting(templates: Sequence[str], chain: Sequence[CallOutcome], position: int, book: Phrasebook) -> list[str]:
    """The templates that give the values of the call at ``position``."""
    return [one for one in templates if fits(one, chain, position, book.revealed)]


def spaced(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.rsplit(".", 1)[-1].replace("_", " "))
    return words.lower() if " " in words else words


def _action(
    chain: Sequence[CallOutcome], position: int, book: Phrasebook, voice: _Voice, earlier: Sequence[int]
) -> str:
    described = _described(chain, position, book, voice, earlier)
    call = chain[position]
    known = _fitting(book.actions.get(call.name, ()), chain, position, book)
    again = [key for key, value in paths(call.arguments) if _mentioned(chain, position, key, value, book, earlier)]
    known = [one for one in known if all(f"{{{key}}}" in one for key in again)]  # a description would repeat itself
    if known or not book.english:
        return _chosen(known, described, voice)
    sentence = book.sentences.get(call.name, spaced(call.name))
    literal = {key for key, value in paths(call.arguments) if _origin(key, value, chain, position, book) is None}
    return _chosen([from_sentence(sentence, call, literal)], described, voice)


TEXTS = ("text", "content", "body", "message", "comment", "description")  # arguments that a user dictates
SETTING = ("set", "change", "update", "mark", "move", "rename", "switch", "turn")


def from_sentence(sentence: str, call: CallOutcome, literal: Collection[str]) -> str:
    """A template for ``call`` from what its tool does, in which the arguments take the places of their nouns.

    The values of the arguments ``literal`` are said; the others are described.
    """
    added: dict[str, list[str]] = {"for": [], "with": [], "without": []}
    left: list[tuple[str, str]] = []
    for key, value in paths(call.arguments):
        noun, slot = noun_of(key, call.name), f"{{{key}}}"
        described, name = key not in literal or is_identifier(key), re.escape(noun)
        article = re.search(rf"\b(an?|the|another|one) (?:(?!of )\w+ )??{name}\b(?! of\b)", sentence)
        place = article or re.search(rf"(?<!of )\b{name}\b(?! of\b)", sentence)
        if isinstance(value, bool):
            added["with" if value else "without"].append(noun)
        elif place and "{" not in place[0]:
            thing = slot if described else f"{'the ' if article else ''}{noun} {slot}"
            sentence = sentence[: place.start()] + thing + sentence[place.end() :]
        elif described:
            added["for"].append(slot)
        else:
            left.append((key, noun))
    end = ""
    for key, noun in left:
        if sentence.split()[0] in SETTING and len(left) == 1:
            end = f" to {{{key}}}"
        elif not end and key.rsplit(".", 1)[-1] in TEXTS:
            end = f" saying {{{key}}}"
        else:
            added["with"].append(f"{noun} {{{key}}}")
    parts = [f"{word} {_listed(things)}" for word, things in added.items() if things]
    return " ".join([sentence, *parts]) + end


def _listed(things: Sequence[str]) -> str:
    *first, last = things
    return f"{', '.join(first)} and {last}" if first else last


@lru_cache(maxsize=4096)
def sentence_of(name: str, description: str) -> str:
    """What a tool does as an imperative in plain words, from the first sentence of its description, or from its name."""
    words = " ".join(re.sub(r"`|\b(?=\w*[a-z])\w+_\w+\b", lambda one: spaced(one[0]).strip("`"), description).split())
    first = re.split(r"[.;:](?:\s|$)| \(|,? (?:and )?returns?\b|, (?:or|with|which) | [-–—]+ ", words)[0].strip()
    verb, _, rest = first.partition(" ")
    if not rest or not verb.isalpha():
        return spaced(name)
    for ending, base in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("s", "")):
        if verb.endswith(ending) and not verb.endswith(("ss", "us", "is")):
            verb = verb.removesuffix(ending) + base
            break
    return f"{verb[0].lower()}{verb[1:]} {rest}" if not verb.isupper() else first


def _question(chain: Sequence[CallOutcome], question: Question, book: Phrasebook, voice: _Voice) -> str:
    call = chain[question.position]
    described = _described(chain, question.position, book, voice)
    known = _fitting(book.questions.get(f"{call.name}.{question.field}", ()), chain, question.position, book)
    if known or not book.english:
        return _chosen(known, described, voice)
    phrases = _fitting(book.lookups.get(call.name, ()), chain, question.position, book)
    origin = Origin(question.position, question.field, {}, True)
    thing = _chosen(phrases or _things(noun_of("id", call.name), origin, call, book), described, voice)
    field = spaced(question.field)
    asked = [f"tell me the {field} of {{thing}}", f"what is the {field} of {{thing}}", f"find the {field} of {{thing}}"]
    return _chosen(asked, {"thing": thing}, voice)
