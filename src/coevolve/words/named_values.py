"""Rules for any words: compare the names in an instruction with the values and tools of its reference."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from coevolve.core.mentions import LETTER, NUMERALS, words_of
from coevolve.core.task import CallOutcome
from coevolve.environments.chains import leaves, observed, shown_in, source_of
from coevolve.environments.environment import Environment, Phrasebook
from coevolve.words.learned_phrases import learned_phrases, phrases_of
from coevolve.words.lexicon import ENGLISH
from coevolve.words.phrase_generator import ARTICLE, SLOT

QUOTED = re.compile(r"(?<!\w)'([^']+)'(?!\w)|\"([^\"]+)\"")
NUMBER = re.compile(rf"(?<!{LETTER})(?<![.-])(-?\d+(?:,\d{{3}}(?!\d))*(?:\.\d+)?)(%?)")
LONG = 8  # most words of a value that an instruction must name literally
SHOWN = 160  # most characters of an instruction in a reason
_FUNCTION_WORDS = """
a an the my our your his her their its this that these those to for of on in into at by with from about up out off away back and or then
also please me it i you we he she they them is are was be were do does did can could would will who what when where which how if as so
now go first need thanks thank kindly just hi hello hey ok okay
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_WORD = (
    r"(?!(?:an?|the|my|our|your|his|her|their|this|that|to|for|of|on|in|at|by|with|from|about|and|or|then|also|please|me|it)\b)"
    r"[^\W\d][\w-]*"
)

Words = tuple[str, ...]


def cut(text: str) -> str:
    """``text`` as a quotation in a gate's reason."""
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def unnamed(text: str, chain: Sequence[CallOutcome], asked: Sequence[CallOutcome]) -> Iterator[tuple[int, str, Any]]:
    """The values of ``asked`` calls that no call revealed and the words do not name: row of the call, argument and value."""
    words = words_of(text)
    numbers = _numbers(text) | {float(NUMERALS.index(word)) for word in words if word in NUMERALS}
    for row, key, value in _given(chain, asked):
        if not _named(value, words, numbers):
            yield row, key, value


def foreign(text: str, environment: Environment, chain: Sequence[CallOutcome]) -> Iterator[str]:
    """Words in a script that no training task uses, and English words where training tasks are not in English."""
    learned = learned_phrases(environment)
    scripts = {script for word in learned.words for script in _scripts(word)}
    results = (value for call in chain for _, value in [*leaves(call.arguments), *observed(call.observation)])
    known = {*learned.words, *words_of(" ".join(map(str, results)))}
    for word in words_of(text):
        if word not in known and (not _scripts(word) <= scripts or (word in ENGLISH and not learned.book.english)):
            yield f"says {cut(word)}, which is not in the language of the training tasks"


@lru_cache(maxsize=4096)
def _scripts(word: str) -> frozenset[str]:
    """The scripts of the letters in ``word``, such as LATIN; kana and Chinese signs are of one script."""
    names = {unicodedata.name(sign, "").partition(" ")[0] for sign in word if sign.isalpha()}
    return frozenset("CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else name for name in names)


def _given(chain: Sequence[CallOutcome], asked: Sequence[CallOutcome]) -> Iterator[tuple[int, str, Any]]:
    """The values of the ``asked`` calls that no earlier call revealed: row of the call, argument and value."""
    for row, call in enumerate(chain):
        if call not in asked:
            continue
        shown = {str(one.value) for earlier in chain[:row] for one in shown_in(earlier.observation)}
        for key, value in leaves(call.arguments):
            if source_of(key, value, chain, row, single=False) is None and str(value) not in shown:
                yield row, key, value


def comparable(text: str, environment: Environment, chain: Sequence[CallOutcome], asked: Sequence[CallOutcome]) -> bool:
    """Whether ``unnamed`` or ``unused`` has a value to compare: one that words must name, or one that these words name."""
    nothing: Words = ()
    needed = any(not _named(value, nothing, set()) for _, _, value in _given(chain, asked))
    return needed or bool(_numbers(text) or _names(text, environment))


def unused(text: str, environment: Environment, chain: Sequence[CallOutcome]) -> Iterator[str]:
    """Numbers, quotations and known values in the words that no call takes or finds."""
    given = [value for call in chain for _, value in leaves(call.arguments)]
    results = [value for call in chain for _, value in observed(call.observation)]
    context = " ".join(map(str, [*given, *results]))
    words, numbers = words_of(context), _numbers(context)
    for name in _names(text, environment):
        if not within(words_of(name), words):
            yield f"names {cut(name)}, which no call uses"
    for number in sorted(_numbers(text.replace("%", "")) - numbers):
        if "%" in text and number / 100 in numbers:
            continue
        yield f"names {number:g}, which no call uses"


def _names(text: str, environment: Environment) -> list[str]:
    """The quotations and known values in the words."""
    quoted = [single or other for single, other in QUOTED.findall(text)]
    return quoted + [name for name in _entities(environment) if within(words_of(name), words_of(text))]


def undone(text: str, book: Phrasebook, chain: Sequence[CallOutcome], offered: frozenset[str]) -> Iterator[str]:
    """Phrases that ask for an ``offered`` tool that the reference does not call."""
    used = {call.name for call in chain}
    phrases = phrases_in(text, book, offered)
    done = [(start, end) for tool, start, end in phrases if tool in used]
    for tool, start, end in phrases:
        if tool not in used and not any(start < other_end and end > other for other, other_end in done):
            yield f"asks {cut(text[start:end])}, and {tool} is not called"


def phrases_in(text: str, book: Phrasebook, offered: frozenset[str]) -> list[tuple[str, int, int]]:
    """The phrases of ``book`` in ``text`` for ``offered`` tools: for each the tool, the first character and the end."""
    return [
        (tool, match.start(), match.end())
        for part in (book.actions, book.questions, {tool: [sentence] for tool, sentence in book.sentences.items()})
        for key, templates in part.items()
        if (tool := key.partition(".")[0]) in offered
        for template in templates
        for match in _phrase(template, offered).finditer(text)
    ]


@lru_cache(maxsize=1024)
def _phrase(template: str, tools: frozenset[str]) -> re.Pattern[str]:
    thing = rf"(?:{ARTICLE}{_WORD}(?: (?:of |about |from |on )?{_WORD}){{0,2}}|\d+)"
    said = SLOT.sub(lambda slot: "" if "=" in slot[1] or slot[1] in tools else slot[0], template)
    pattern = thing.join(re.escape(piece) for piece in SLOT.split(said)[::2])
    return re.compile(
        rf"(?<!\S){pattern}(?=\W*$|\s*[.,;:!?]|\s(?:and|then|also|please|thanks|for|if)\b)", re.IGNORECASE
    )


def _numbers(text: str) -> set[float]:
    """The numbers in ``text``; for a percentage also its share of 1."""
    found = [(float(number.replace(",", "")), percent) for number, percent in NUMBER.findall(text)]
    return {number for number, _ in found} | {number / 100 for number, percent in found if percent}


def within(part: Words, whole: Words) -> bool:
    size = len(part)
    return any(whole[start : start + size] == part for start in range(len(whole) - size + 1))


def _named(value: Any, words: Words, numbers: set[float]) -> bool:
    """Whether the words name ``value``, or the quotations and numbers of a long value such as a statement."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        return float(value) in numbers
    value_words = words_of(value)
    named = _singular(words_of(value.partition(",")[0]))  # "New York, NY" is New York
    if named and within(named, _singular(words)):
        return True
    parts = [single or other for single, other in QUOTED.findall(value)]
    counts = _numbers(QUOTED.sub(" ", value))
    if not parts and not counts:
        return len(value_words) > LONG
    return all(within(words_of(part), words) for part in parts) if parts else counts <= numbers


def _singular(words: Words) -> Words:
    return tuple(word.removesuffix("s") for word in words)


@lru_cache(maxsize=8)
def _entities(environment: Environment) -> Sequence[str]:
    """Strings in the arguments of known references, without words that describe tools and phrases."""
    book = phrases_of(environment)
    common = set(words_of(str([*environment.tools(), book.actions, book.lookups, book.fields, book.questions])))
    values = {
        value
        for task in environment.tasks("seed")
        for call in task.calls
        for _, value in leaves(call.arguments)
        if isinstance(value, str) and 0 < len(words_of(value)) <= LONG
    }
    return sorted(value for value in values if not set(words_of(value)) <= common)
