"""Success in several samples of a task: in at least one of k, and in all of k. Both without bias, from n samples of which c succeed."""

from collections.abc import Sequence
from math import comb


def pass_at(samples: int, successes: int, k: int) -> float:
    """pass@k: the chance that one of k samples succeeds at least (Chen et al., arXiv 2107.03374, equation 1)."""
    return 1.0 - comb(samples - successes, k) / comb(samples, k)


def pass_every(samples: int, successes: int, k: int) -> float:
    """pass^k: the chance that all of k samples succeed (Yao et al., tau-bench, arXiv 2406.12045, section 2.2)."""
    return comb(successes, k) / comb(samples, k)


def depths(samples: int) -> list[int]:
    """The k that are reported of so many samples: 1 is the success rate itself, then powers of two, and all."""
    found = [1 << power for power in range(1, samples.bit_length()) if 1 << power < samples]
    return [*found, samples] if samples > 1 else []


def several(counts: Sequence[tuple[int, int]]) -> dict[str, float]:
    """``pass@k`` and then ``pass^k`` for each k of ``depths``: the mean over tasks, of (samples, successes), that have so many."""
    most = max((samples for samples, _ in counts), default=1)
    found = {}
    for sign, chance in (("@", pass_at), ("^", pass_every)):
        for k in depths(most):
            known = [chance(samples, successes, k) for samples, successes in counts if samples >= k]
            found[f"pass{sign}{k}"] = sum(known) / len(known)
    return found
