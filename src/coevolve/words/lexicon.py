"""Compare an instruction with a reference in a vocabulary of senses, for environments that have a lexicon.

A lexicon gives the possible senses of each phrase. A reference allows some senses and requires some. Two things speak against
an instruction: a phrase whose senses the reference does not allow, and a required sense that no phrase has.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.mentions import NUMERALS

Senses = frozenset[str]
Lexicon = Mapping[str, Sequence[Senses]]

_VALUES = ("number ", "value ")  # the beginnings of the senses of values
SILENT = ""  # the sense of a phrase that may mean nothing
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ENGLISH = "the of and with from that this my to what which please your then"
ENGLISH = frozenset(_ENGLISH.split())  # frequent in English, and hardly a word of another language
_TOKEN = re.compile(r"\d{4}-\d\d-\d\d|-?\d+(?:[.,]\d+)*|[^\W\d_]+(?:-[^\W\d_]+)*")
_GLUED = re.compile(r"n['’]t\b|['’](?:s|re|ve|d|ll|m)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Meaning:
    """``lexicon``: phrase → its statements, each a set of possible senses; no statements if the phrase means nothing.

    ``does``: the senses that the reference allows. ``must``: required statements, each satisfied by any of its senses.
    ``sentences``: what the environment's own tasks with this reference say.
    """

    lexicon: Lexicon
    does: Senses
    must: Sequence[Senses]
    sentences: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Heard:
    """The phrases of a text that a lexicon knows, each with a statement's senses, and the words that it does not know."""

    phrases: Sequence[tuple[str, Senses]]
    unknown: Collection[str]


def number(of: float) -> str:
    """The sense of a number."""
    return f"{_VALUES[0]}{of:g}"


def value(text: object) -> str:
    """The sense of a text value."""
    return f"{_VALUES[1]}{str(text).lower()}"


def unfitting(text: str, meaning: Meaning, guess: bool = False) -> str | None:
    """The complaint about ``text``; "" if there is none; None if the lexicon does not know all its words.

    A text with unknown words must name the values of its reference. With ``guess``, a known phrase can speak against it too.
    """
    heard = hear(text, meaning.lexicon)
    if len(heard.unknown) > len(heard.phrases) + 1:
        return "is no sentence: most of its words are unknown"
    said: Senses = frozenset(map(value, heard.unknown)).union(*(senses for _, senses in heard.phrases))
    unsaid = [senses for senses in meaning.must if not senses & said]
    if heard.unknown:
        unsaid = [senses for senses in unsaid if all(sense.startswith(_VALUES[1]) for sense in senses)]
    for phrase, senses in heard.phrases if guess or not heard.unknown else ():
        if SILENT not in senses and not senses & meaning.does:
            return f"says {phrase!r}, for which its reference has no place"
    if unsaid:
        return f"does not say {' or '.join(sorted(unsaid[0]))!r}"
    return None if heard.unknown else ""


def hear(text: str, lexicon: Lexicon) -> Heard:
    """Split ``text`` into the longest phrases of ``lexicon``, from left to right.

    A phrase with a capital letter must match exactly, other phrases in any case. The last word may have or lack a plural's ending.
    The sense of a number is its value.
    """
    phrases: list[tuple[str, Senses]] = []
    unknown: list[str] = []
    longest = max((phrase.count(" ") for phrase in lexicon), default=0) + 1
    whole = _GLUED.sub(lambda glued: " not" if glued[0][0] in "nN" else "", text)
    for part in re.split(r"[.?!;:,()\"]+(?=\s|$)|[\n\"]", whole):
        tokens, place = _TOKEN.findall(part), 0
        while place < len(tokens):
            size, says = _longest(tokens[place : place + longest], lexicon)
            if says is None:
                unknown.append(tokens[place])
            phrases += [(" ".join(tokens[place : place + size]), senses) for senses in says or ()]
            place += size
    return Heard(phrases, unknown)


def _longest(tokens: Sequence[str], lexicon: Lexicon) -> tuple[int, Sequence[Senses] | None]:
    for size in range(len(tokens), 0, -1):
        for phrase in _forms(tokens[:size]):
            if phrase in lexicon:
                return size, lexicon[phrase]
    word = tokens[0]
    if _DATE.fullmatch(word):
        return 1, [frozenset({value(word)})]
    if word.lower() in NUMERALS:
        return 1, [frozenset({number(NUMERALS.index(word.lower()))})]
    try:
        return 1, [frozenset({number(float(word.replace(",", "")))})]
    except ValueError:
        return 1, None


def _forms(tokens: Sequence[str]) -> Iterator[str]:
    written = " ".join(tokens)
    for phrase in dict.fromkeys([written, written.lower()]):
        yield phrase
        for ending, instead in (("s", ""), ("es", ""), ("ies", "y"), ("", "s")):
            if phrase.endswith(ending):
                yield phrase.removesuffix(ending) + instead
