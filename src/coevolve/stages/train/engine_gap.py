"""How far the engine that samples is from the model that learns: log-probabilities of the same tokens under both.

The gradient of a token is right only if both agree. They differ by rounding, by an engine in another dtype, and by weights that
did not arrive (huggingface/trl#6789): then training runs on and learns nothing, or worse.
"""

from typing import Any

import torch

BAND = (0.9, 1.1)  # of the ratio of a token's two probabilities


def differences(learner: Any, engine: Any, written: Any) -> Any:
    """Log-probability by the learner minus that by the engine, of each token that the agent wrote, in one dimension.

    All arguments are rows × tokens. A token without a log-probability gives NaN.
    """
    return (learner - engine)[written.bool()]


def gap(differences: Any) -> dict[str, float]:
    """The mean and the largest absolute difference, and the share of tokens whose probability ratio is outside ``BAND``.

    It omits NaN, and without any number it is empty.
    """
    known = differences[~differences.isnan()].double()
    if not known.numel():
        return {}
    ratio = known.exp()
    outside = (ratio < BAND[0]) | (ratio > BAND[1])
    return {
        "engine_gap_mean": known.abs().mean().item(),
        "engine_gap_max": known.abs().max().item(),
        "engine_gap_share": torch.as_tensor(outside, dtype=torch.float64).mean().item(),
    }
