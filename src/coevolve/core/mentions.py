"""Where a text names a value: the words of a text in any script, the forms of a word, and numbers in digits or in words."""

import re
from itertools import pairwise

from coevolve.core.similarity import seen

NUMERALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
# Thai, Lao, Myanmar, Khmer, kana, Chinese, Korean (whose words end in particles) and pictures: no blank separates their words
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2190-\u2bff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U0001f000-\U0001faff\U00020000-\U0003ffff"
)
LETTER = rf"(?![{UNSPACED}])[\w\u0300-\u036f\u0590-\u065f\u0900-\u0dff]"  # of a word between blanks; also vowel signs
WORD = re.compile(rf"[{UNSPACED}]|(?:{LETTER})+")
STEM = 4  # letters at the beginning that the forms of a word share
_NUMBER = rf"(?<!{LETTER})(?<![.,-])-?\d+(?:,\d{{3}})*(?:\.\d+)?(?!{LETTER})"
_LIST = re.compile(r"(?:\s|,|and|or|&)*", re.IGNORECASE)

Span = tuple[int, int]  # the first character of a part of a text, and its end


def words_of(text: str) -> tuple[str, ...]:
    """The words of ``text`` without case and accents. Each sign of a script without blanks is a word."""
    return tuple(WORD.findall(seen(text)))


def inflected(value: object, text: str) -> list[Span]:
    """Where ``text`` has the words of ``value``, perhaps with other endings; empty if it lacks one, or one is too short."""
    parts = words_of(str(value))
    stems = [part[: max(min(STEM, len(part) - 1), STEM - 1)] for part in parts if len(part) >= STEM - 1]
    words = list(WORD.finditer(text))
    found = [[word.span() for word in words if seen(word[0]).startswith(stem)] for stem in stems]
    return sorted(span for spans in found for span in spans) if len(stems) == len(parts) and all(found) else []


def mentions(value: object, text: str) -> list[Span]:
    """Where ``text`` names ``value``. A list is named where its values stand in a row."""
    if value is None or isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        numbers = [(one.span(), one[0]) for one in re.finditer(_NUMBER, text)]
        found = [span for span, number in numbers if float(number.replace(",", "")) == value]
        word = NUMERALS[int(value)] if value in range(len(NUMERALS)) else None
        return found or [one.span() for one in re.finditer(rf"\b{word}\b", text, re.IGNORECASE) if word]
    if isinstance(value, list):
        each = [mentions(one, text)[:1] for one in value]
        spans = sorted(span for one in each for span in one)
        whole = bool(spans) and all(each)
        linked = all(_LIST.fullmatch(text[end:start]) for (_, end), (start, _) in pairwise(spans))
        return [(spans[0][0], spans[-1][1])] if whole and linked else []
    if not isinstance(value, str) or not value.strip():
        return []
    for form in dict.fromkeys((value, value.replace("_", " "))):
        flags = re.IGNORECASE if len(value) > 1 else re.NOFLAG
        before, after = (re.match(f"[{UNSPACED}]", sign) is None for sign in (form[0], form[-1]))
        pattern = rf"(?<!{LETTER})" * before + re.escape(form) + rf"(?=(?:e?s)?(?!{LETTER}))" * after
        if form.lower() in text.lower() and (spans := [one.span() for one in re.finditer(pattern, text, flags)]):
            return spans
    return []
