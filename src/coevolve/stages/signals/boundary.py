"""Boundary: a task on the edge of what the agent can do.

CoEvolve (arXiv 2604.15840): within one training step, the K trajectories of one task hold both outcomes.
"""


def boundary(size: int, successes: int) -> bool:
    """Whether a group of ``size`` trajectories with ``successes`` successful ones holds both outcomes."""
    return 0 < successes < size
