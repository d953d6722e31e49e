"""Find the parts of an instruction that are in the language of ``phrase_generator``, for any calls."""

import re
from functools import lru_cache

from coevolve.chains import is_identifier
from coevolve.environments.environment import Environment, Phrasebook
from coevolve.environments.phrase_generator import ARTICLE, CONNECTIVES, SLOT, PhraseListener, fill, framed, spaced

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
    goal = _any_goal(environment)
    inner = re.fullmatch(framed("(.+?)", PhraseListener()), bare(text), re.IGNORECASE)
    if inner is None:
        return False
    return goal.fullmatch(inner[1]) is not None or all(goal.fullmatch(part) for part in _SPLIT.split(inner[1]))


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


@lru_cache(maxsize=8)
def _any_goal(environment: Environment) -> re.Pattern[str]:
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
    goals = [fill(one, {slot: slots[is_identifier(slot)] for slot in SLOT.findall(one)}, voice) for one in templates]
    verbs = voice.one_of([voice.plain(spaced(name)) for name in tools if name not in book.actions] or ["(?!)"])
    listed = voice.one_of([voice.plain(spaced(key)) for key in keys] or ["(?!)"])
    by_name = rf"(?:do |run )?{verbs}(?: with {listed} .+| using {listed} .+| \({listed} .+\))?"
    return re.compile("|".join(dict.fromkeys([*goals, by_name])), re.IGNORECASE)
