"""Near-duplicates among texts: Jaccard similarity of their words and pairs of words."""

import hashlib
import itertools
import math
from collections import defaultdict

Shingles = frozenset[str]


def shingles(text: str) -> Shingles:
    """Words and pairs of neighbouring words, without case and punctuation at their ends."""
    words = [word for word in (raw.strip(".,;:!?()[]\"'").casefold() for raw in text.split()) if word]
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


def _order(shingle: str) -> bytes:
    """Spreads shingles evenly; any fixed order is right."""
    return hashlib.blake2b(shingle.encode("utf-8", "surrogatepass"), digest_size=8).digest()
