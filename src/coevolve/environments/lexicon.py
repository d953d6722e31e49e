"""Compare an instruction with a reference in a vocabulary of senses, for environments that have a lexicon.

A lexicon gives the possible senses of each phrase. A reference allows some senses and requires some. Two things speak against
an instruction: a phrase whose senses the reference does not allow, and a required sense that no phrase has.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

Senses = frozenset[str]
Lexicon = Mapping[str, Sequence[Senses]]

SILENT = ""  # the sense of a phrase that may mean nothing
UNHEARD = "\0"  # stands in a text for a word that a language lacks; no record holds this character
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
NUMERALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TOKEN = re.compile(r"\d{4}-\d\d-\d\d|-?\d+(?:[.,]\d+)*|[^\W\d_]+(?:-[^\W\d_]+)*")
_GLUED = re.compile(r"n['’]t\b|['’](?:s|re|ve|d|ll|m)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Meaning:
    """``lexicon``: phrase → its statements, each a set of possible senses; no statements if the phrase means nothing.

    ``does``: the senses that the reference allows. ``must``: required statements, each satisfied by any of its senses.
    """

    lexicon: Lexicon
    does: Senses
    must: Sequence[Senses]


@dataclass(frozen=True, slots=True)
class Heard:
    """The phrases of a text that a lexicon knows, each with a statement's senses, and the words that it does not know."""

    phrases: Sequence[tuple[str, Senses]]
    unknown: Collection[str]


def tolerant(text: str) -> str:
    """A pattern of ``text`` in which UNHEARD may stand for any word, and punctuation may be missing."""
    return "".join(_tolerant(part) for part in re.findall(r"[\w'-]+|[\s.,;:?!]+|[^\w\s.,;:?!'-]+", text))


def _tolerant(part: str) -> str:
    if any(sign.isalnum() for sign in part):
        return f"(?:{re.escape(part)}|{UNHEARD})"
    if part.isspace() or not set(part) <= set(" .,;:?!"):
        return re.escape(part)
    return "[ .,;:?!]+" if " " in part else "[.,;:?!]?"


def number(of: float) -> str:
    """The sense of a number."""
    return f"number {of:g}"


def value(text: object) -> str:
    """The sense of a text value."""
    return f"value {str(text).lower()}"


def unfitting(text: str, meaning: Meaning, guess: bool = False) -> str | None:
    """The complaint about ``text``; "" if there is none; None if the lexicon does not know all its words.

    With ``guess``, a known phrase can speak against the text even if the text also has unknown words.
    """
    heard = hear(text, meaning.lexicon)
    if heard.unknown and not guess:
        return None
    for phrase, senses in heard.phrases:
        if SILENT not in senses and not senses & meaning.does:
            return f"says {phrase!r}, for which its reference has no place"
    if heard.unknown:
        return None
    said: Senses = frozenset().union(*(senses for _, senses in heard.phrases))
    return next((f"does not say {' or '.join(sorted(one))!r}" for one in meaning.must if not one & said), "")


def hear(text: str, lexicon: Lexicon) -> Heard:
    """Split ``text`` into the longest phrases of ``lexicon``, from left to right.

    A phrase with a capital letter must match exactly, other phrases in any case. The last word may lack a plural's ending.
    The sense of a number is its value.
    """
    phrases: list[tuple[str, Senses]] = []
    unknown: list[str] = []
    longest = max((phrase.count(" ") for phrase in lexicon), default=0) + 1
    for part in re.split(r"[.?!;:,()\"]+(?=\s|$)|[\n\"]", _GLUED.sub(_spoken_out, text)):
        tokens, place = _TOKEN.findall(part), 0
        while place < len(tokens):
            size, says = _longest(tokens[place : place + longest], lexicon)
            if says is None:
                unknown.append(tokens[place])
            phrases += [(" ".join(tokens[place : place + size]), senses) for senses in says or ()]
            place += size
    return Heard(phrases, unknown)


def _spoken_out(match: re.Match[str]) -> str:
    return " not" if match[0][0] in "nN" else ""


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
        for ending, instead in (("s", ""), ("es", ""), ("ies", "y")):
            if phrase.endswith(ending):
                yield phrase.removesuffix(ending) + instead
