"""Search for near-duplicate texts, by Jaccard similarity of words and word pairs, and for texts inside other texts.

The threshold is `verify.near_duplicate`, in stages/verify/config.py.
"""

import itertools
import math
import unicodedata
from array import array
from collections import Counter, defaultdict

Shingles = frozenset[str]
EMPTY = frozenset([""])  # index entry of a text without words
LETTERS = 12  # consecutive letters that passages are compared by
PASSAGE = 45  # fewest letters of a passage: other texts contain a shorter one by chance


def seen(text: str) -> str:
    """``text`` without case, accents, characters of no width and forms such as full width. Use it only to compare texts."""
    if text.isascii():
        return text.lower()
    whole = unicodedata.normalize("NFKD", text).casefold()
    shown = (sign for sign in whole if not "\u0300" <= sign < "\u0370" and unicodedata.category(sign) != "Cf")
    return unicodedata.normalize("NFKC", "".join(shown))


def shingles(text: str) -> Shingles:
    """Words and pairs of neighbouring words, without case and without punctuation at their ends."""
    words = [word for word in (raw.strip(".,;:!?()[]\"'") for raw in seen(text).split()) if word]
    return frozenset(words) | {f"{left} {right}" for left, right in itertools.pairwise(words)}


def similarity(left: Shingles, right: Shingles) -> float:
    """Jaccard similarity: shared over all shingles, in [0, 1]. Two empty texts are equal."""
    if not left and not right:
        return 1.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


class Index:
    """Texts by key, searched for the most similar text with at least the similarity ``threshold``.

    A text of similarity t shares at least ceil(t n) of n shingles, hence one of any n - ceil(t n) + 1 shingles. The
    search looks up the rarest of these. It compares few candidates, even among a million texts, and misses none.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._keys: list[str] = []
        self._texts: list[str] = []
        self._sizes = array("I")
        self._first: dict[int, int] = {}  # number of the first text with a set of shingles, by the hash of the set
        self._numbers: dict[int, array[int]] = {}  # numbers of the texts with a shingle, by its hash

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str, text: str) -> None:
        parts = shingles(text)
        self._first.setdefault(hash(parts), len(self._keys))
        for part in parts or EMPTY:
            self._numbers.setdefault(hash(part), array("I")).append(len(self._keys))
        self._keys.append(key)
        self._texts.append(text)
        self._sizes.append(len(parts))

    def nearest(self, text: str) -> tuple[str, float] | None:
        """Key and similarity of the most similar text, the first added among equals; None below the threshold."""
        wanted = shingles(text)
        equal = self._first.get(hash(wanted))
        if equal is not None and shingles(self._texts[equal]) == wanted:
            return self._keys[equal], 1.0
        size = len(wanted)
        least = math.ceil(self._threshold * size - 1e-9)
        having = sorted((self._numbers.get(hash(part), ()) for part in wanted or EMPTY), key=len)
        best, number = 0.0, -1
        for other in set().union(*having[: max(size - least + 1, 1)]):
            if self._sizes[other] < least or self._threshold * self._sizes[other] > size + 1e-9:
                continue  # too short or too long to reach the threshold
            score = similarity(wanted, shingles(self._texts[other]))
            if score >= self._threshold and (score > best or (score == best and other < number) or number < 0):
                best, number = score, other
        return (self._keys[number], best) if number >= 0 else None


class Passages:
    """Texts by key, searched for those that another text contains or equals. Only letters and digits count."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._letters: dict[str, str] = {}
        self._rows: dict[str, int] = {}  # number of rows of letters in each text
        self._by_row: dict[str, list[str]] = defaultdict(list)

    def add(self, key: str, text: str) -> None:
        self._letters[key] = letters(text)
        own_rows = rows(self._letters[key])
        self._rows[key] = len(own_rows)
        for row in own_rows:
            self._by_row[row].append(key)

    def within(self, text: str, least: int = PASSAGE) -> list[str]:
        """Keys of the texts that equal ``text``, or have ``least`` letters and enough of their rows in it."""
        whole = letters(text)
        shared = Counter(key for row in rows(whole) for key in self._by_row.get(row, ()))
        return [
            key
            for key, count in shared.items()
            if (count >= self._share * self._rows[key] and len(self._letters[key]) >= least)
            or self._letters[key] == whole
        ]


def letters(text: str) -> str:
    """The letters and digits of a text, as a reader sees them."""
    return "".join(character for character in seen(text) if character.isalnum())


def rows(text: str) -> frozenset[str]:
    """All substrings of LETTERS letters. A shorter text is a single row."""
    return frozenset(text[start : start + LETTERS] for start in range(max(len(text) - LETTERS + 1, 1)))
