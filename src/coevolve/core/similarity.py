"""Near-duplicates among texts: Jaccard similarity of their words and pairs of words. And texts that hold another.

Texts are compared as they are seen (``look_alikes``).
"""

import hashlib
import itertools
import math
from collections import Counter, defaultdict

from coevolve.core.look_alikes import seen

Shingles = frozenset[str]
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

    Prefix filter: put all shingles into one fixed order; two sets of similarity t share one of the first
    n - ceil(t n) + 1 shingles of each. So a search looks at few candidates, and misses none.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._texts: dict[str, Shingles] = {}
        self._by_shingle: dict[str, list[str]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, key: str, text: str) -> None:
        found = shingles(text)
        self._texts[key] = found
        for one in self._prefix(found):
            self._by_shingle[one].append(key)

    def nearest(self, text: str) -> tuple[str, float] | None:
        """Key and similarity of the most similar text (of equal ones the first added), or None below the threshold."""
        wanted = shingles(text)
        best: tuple[str, float] | None = None
        seen = set()
        for one in self._prefix(wanted):
            for key in self._by_shingle.get(one, ()):
                if key in seen:
                    continue
                seen.add(key)
                found = similarity(wanted, self._texts[key])
                if found >= self._threshold and (best is None or found > best[1]):
                    best = (key, found)
        return best

    def _prefix(self, found: Shingles) -> list[str]:
        if not found:
            return [""]
        count = len(found) - math.ceil(self._threshold * len(found) - 1e-9) + 1
        return sorted(found, key=_order)[: max(count, 1)]


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


def _order(shingle: str) -> bytes:
    """Spreads shingles evenly; any fixed order is right."""
    return hashlib.blake2b(shingle.encode("utf-8", "surrogatepass"), digest_size=8).digest()
