"""Find the parts of an instruction that are in the language of ``phrase_generator``, for any calls."""

import re
from dataclasses import dataclass
from functools import lru_cache

from coevolve.environments.chains import is_identifier
from coevolve.environments.environment import CONNECTIVES, Environment, Phrasebook
from coevolve.environments.phrase_generator import ARTICLE, SLOT, PhraseListener, fill, framed, spaced

_SPLIT = re.compile("|".join(re.escape(one) for one in sorted(CONNECTIVES, key=len, reverse=True)), re.IGNORECASE)
_WORD = (
    r"(?!(?:an?|the|my|our|your|his|her|their|this|that|to|for|of|on|in|at|by|with|from|about|and|or|then|also|please|me|it)\b)"
    r"[^\W\d][\w'-]*"
)
# A person's words for an argument. In a number with words, such as "5 dollars", the end of the value is unknown.
_VALUE = rf"{ARTICLE}(?:-?\d[\d.,-]*|{_WORD}(?: {_WORD}){{0,2}})"


def bare(text: str) -> str:
    """``text`` without punctuation at its end."""
    return text.strip().rstrip(".!?")


def spoken(text: str, environment: Environment) -> bool:
    """Whether ``text`` consists only of phrases of the environment's book, or of names of its tools and arguments.

    Ambiguous text does not count: a description that matches no lookup of the book, or a value of many words.
    """
    goals = _any_goal(environment)
    inner = re.fullmatch(framed("(.+?)", PhraseListener(), environment.phrasebook), bare(text), re.IGNORECASE)
    if inner is None:
        return False
    return goals.match(inner[1]) or all(goals.match(part) for part in _SPLIT.split(inner[1]))


def phrases_in(text: str, book: Phrasebook) -> list[tuple[str, int, int]]:
    """The phrases of ``book`` in ``text``: for each the tool, the first character and the end."""
    return [
        (tool, match.start(), match.end())
        for tool, templates in book.actions.items()
        for template in templates
        for match in _phrase(template).finditer(text)
    ]


@lru_cache(maxsize=1024)
def _phrase(template: str) -> re.Pattern[str]:
    thing = rf"{ARTICLE}{_WORD}(?: (?:of |about |from |on )?{_WORD}){{0,2}}|\d+"
    pattern = fill(template, dict.fromkeys(SLOT.findall(template), f"(?:{thing})"), PhraseListener())
    return re.compile(rf"(?<!\S){pattern}(?!\S)", re.IGNORECASE)


@dataclass(frozen=True)
class _Goals:
    """The patterns of all goals that an environment's book can say, from the templates of the goals.

    A strict pattern holds the patterns of all values and takes long to compile. So it is compiled for the texts that match
    the template with any words in its slots, which no strict match fails.
    """

    loose: tuple[tuple[re.Pattern[str], str], ...]

    def match(self, text: str) -> bool:
        return any(loose.fullmatch(text) and _compiled(strict).fullmatch(text) for loose, strict in self.loose)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@lru_cache(maxsize=8)
def _any_goal(environment: Environment) -> _Goals:
    book = environment.phrasebook
    functions = [schema["function"] for schema in environment.tools()]
    tools = [one["name"] for one in functions]
    keys = sorted({key for one in functions for key in one["parameters"].get("properties", {})})
    voice = PhraseListener()
    flat = [template for said in (book.lookups, book.fields) for templates in said.values() for template in templates]
    described = voice.one_of([fill(one, dict.fromkeys(SLOT.findall(one), _VALUE), voice) for one in flat] or [_VALUE])
    slots = {
        True: described,
        False: voice.one_of([_VALUE, described]),
    }  # True: arguments that only a lookup reveals; False: all others
    templates = [one for said in (book.actions, book.questions) for found in said.values() for one in found]
    verbs = voice.one_of([voice.plain(spaced(name)) for name in tools if name not in book.actions] or ["(?!)"])
    listed = voice.one_of([voice.plain(spaced(key)) for key in keys] or ["(?!)"])
    by_name = rf"(?:do |run )?{verbs}(?: with {listed} .+| using {listed} .+| \({listed} .+\))?"
    goals = {by_name: by_name}
    for template in templates:
        names = SLOT.findall(template)
        strict = fill(template, {slot: slots[is_identifier(slot)] for slot in names}, voice)
        goals[strict] = fill(template, dict.fromkeys(names, ".+"), voice)
    return _Goals(tuple((_compiled(loose), strict) for strict, loose in goals.items()))
