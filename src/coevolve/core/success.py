"""The only definition of success."""

SUCCESS_THRESHOLD = 0.5


def is_success(score: float) -> bool:
    """Whether an episode of this reward counts as solved (CoEvolve, arXiv 2604.15840: a score of at least 0.5)."""
    return score >= SUCCESS_THRESHOLD
