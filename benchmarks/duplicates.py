"""How long the search for a near-duplicate takes among many known tasks. `python benchmarks/duplicates.py [--largest 1000000]`

Texts are miniworld's instructions with every name, number and time replaced by one of 20,000 words. Of the candidates a third repeats
a known text but for one word, the others are new.
"""

import argparse
import random
import resource
import statistics
import time

from coevolve.core.similarity import Index, shingles, similarity
from coevolve.environments.registry import make

CANDIDATES = 1000
THRESHOLD = 0.9  # verify.near_duplicate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=1_000_000)
    args = parser.parse_args()
    templates = [" ".join(task.turns).split() for task in make("miniworld").tasks("broad")]
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(20_000)]

    def text() -> str:
        return " ".join(
            word if word.islower() and word.isalpha() else rng.choice(words) for word in rng.choice(templates)
        )

    def repeated(known: str) -> str:
        parts = known.split()
        parts[rng.randrange(len(parts))] = rng.choice(words)
        return " ".join(parts)

    count = 10_000
    while count <= args.largest:
        known = [text() for _ in range(count)]
        index = Index(THRESHOLD)
        began = time.perf_counter()
        for number, one in enumerate(known):
            index.add(str(number), one)
        built = time.perf_counter() - began
        took, found = [], 0
        for number in range(CANDIDATES):
            candidate = repeated(rng.choice(known)) if number % 3 == 0 else text()
            began = time.perf_counter()
            near = index.nearest(candidate)
            took.append((time.perf_counter() - began) * 1000)
            found += near is not None
            assert near is None or similarity(shingles(candidate), shingles(known[int(near[0])])) == near[1]
        worst = sorted(took)[-CANDIDATES // 100]
        print(
            f"{count:>8} known ({built:.1f} s to read): {statistics.fmean(took):.2f} ms a candidate, {worst:.2f} ms for the slowest 1 %, "
            f"{found} of {CANDIDATES} found; {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB",
            flush=True,
        )
        count *= 10


if __name__ == "__main__":
    main()
