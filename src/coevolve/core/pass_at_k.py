"""Unbiased pass@k and pass^k: success in at least one of k samples, or in all of them, from n samples with c successes."""

from collections.abc import Sequence
from math import comb


def pass_at(samples: int, successes: int, k: int) -> float:
    """pass@k: the chance that at least one of k samples succeeds (Chen et al., arXiv 2107.03374, equation 1)."""
    return 1.0 - comb(samples - successes, k) / comb(samples, k)


def pass_every(samples: int, successes: int, k: int) -> float:
    """pass^k: the chance that all of k samples succeed (Yao et al., tau-bench, arXiv 2406.12045, section 2.2)."""
    return comb(successes, k) / comb(samples, k)


def depths(samples: int) -> list[int]:
    """The k to report: the powers of two below ``samples``, then ``samples``. k = 1 is the success rate itself."""
    powers = [1 << power for power in range(1, samples.bit_length()) if 1 << power < samples]
    return [*powers, samples] if samples > 1 else []


def several(counts: Sequence[tuple[int, int]]) -> dict[str, float]:
    """``pass@k`` and then ``pass^k`` for each k of ``depths``: the mean over the tasks with at least k samples.

    ``counts`` holds (samples, successes) for each task.
    """
    most = max((samples for samples, _ in counts), default=1)
    means = {}
    for sign, chance in (("@", pass_at), ("^", pass_every)):
        for k in depths(most):
            chances = [chance(samples, successes, k) for samples, successes in counts if samples >= k]
            means[f"pass{sign}{k}"] = sum(chances) / len(chances)
    return means
