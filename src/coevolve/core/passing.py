"""Success in several samples of a task: in at least one of k, and in all of k. Both without bias, from n samples of which c succeed."""

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
