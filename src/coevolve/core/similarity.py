"""Near-duplicates among texts: Jaccard similarity of their words and pairs of words. And texts that hold another.

Texts are compared as they are seen (``look_alikes``).
"""

import itertools
import math
from array import array
from collections import Counter, defaultdict

from coevolve.core.confusables import seen

Shingles = frozenset[str]
EMPTY = frozenset([""])  # what a text without words is found by
LETTERS = 12  # in a row, by which passages are compared
PASSAGE = 45  # letters from which on a text is found within another: a shorter one is part of many by chance


def shingles(text: str) -> Shingles:
    """Words and pairs of neighbouring words, without case and punctuation at their ends."""
    words = [word for word in (raw.strip(".,;:!?()[]\"'") for raw in seen(text).split()) if word]
    return frozenset(words) | {f"{left} {right}" for left, right in itertools.pairwise(words)}


def similarity(left: Shingles, right: Shingles) -> float:
    """Jaccard: shared over all, in [0, 1]; two empty texts are equal."""
    if not left and not right:
        return 1.0
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


class Index:
    """Texts by key, searched for the most similar one of at least ``threshold``.

    Of n shingles a text of similarity t shares at least ceil(t n), hence one of any n - ceil(t n) + 1: those that the fewest texts
    have are looked up. So a search looks at few candidates, among a million as well, and misses none.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._keys: list[str] = []
        self._texts: list[str] = []
        self._sizes = array("I")
        self._first: dict[int, int] = {}  # number of the first text with these shingles, by the hash of all of them
        self._numbers: dict[int, array[int]] = {}  # of the texts that have a shingle, by its hash

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: str, text: str) -> None:
        found = shingles(text)
        self._first.setdefault(hash(found), len(self._keys))
        for one in found or EMPTY:
            self._numbers.setdefault(hash(one), array("I")).append(len(self._keys))
        self._keys.append(key)
        self._texts.append(text)
        self._sizes.append(len(found))

    def nearest(self, text: str) -> tuple[str, float] | None:
        """Key and similarity of the most similar text (of equal ones the first added), or None below the threshold."""
        wanted = shingles(text)
        equal = self._first.get(hash(wanted))
        if equal is not None and shingles(self._texts[equal]) == wanted:
            return self._keys[equal], 1.0
        size = len(wanted)
        least = math.ceil(self._threshold * size - 1e-9)
        having = sorted((self._numbers.get(hash(one), ()) for one in wanted or EMPTY), key=len)
        best, number = 0.0, -1
        for other in set().union(*having[: max(size - least + 1, 1)]):
            if self._sizes[other] < least or self._threshold * self._sizes[other] > size + 1e-9:
                continue  # too short or too long to be so similar
            found = similarity(wanted, shingles(self._texts[other]))
            if found >= self._threshold and (found > best or (found == best and other < number) or number < 0):
                best, number = found, other
        return (self._keys[number], best) if number >= 0 else None


class Passages:
    """Texts by key, searched for those that another text holds, or is, whatever stands around and between their letters."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._letters: dict[str, str] = {}
        self._rows: dict[str, int] = {}  # how many rows of letters each has
        self._by_row: dict[str, list[str]] = defaultdict(list)

    def add(self, key: str, text: str) -> None:
        self._letters[key] = letters(text)
        found = rows(self._letters[key])
        self._rows[key] = len(found)
        for one in found:
            self._by_row[one].append(key)

    def within(self, text: str, least: int = PASSAGE) -> list[str]:
        """Keys of the texts of at least ``least`` letters whose rows are in ``text``, up to the share; and of any equal one."""
        whole = letters(text)
        shared = Counter(key for one in rows(whole) for key in self._by_row.get(one, ()))
        return [
            key
            for key, count in shared.items()
            if (count >= self._share * self._rows[key] and len(self._letters[key]) >= least)
            or self._letters[key] == whole
        ]


def letters(text: str) -> str:
    """The letters and digits of a text alone, as they are seen."""
    return "".join(one for one in seen(text) if one.isalnum())


def rows(text: str) -> frozenset[str]:
    """Its LETTERS in a row, from every place; a shorter text is one row."""
    return frozenset(text[place : place + LETTERS] for place in range(max(len(text) - LETTERS + 1, 1)))
