"""Section `base`: the agent to start from."""

from typing import Annotated

from pydantic import Field

from coevolve.core.section import Count, Positive, Section, Share, Whole
from coevolve.policies.config import PolicySection


class Base(Section):
    model: str = "tiny"
    """The agent to start from: tiny, a model directory, or a name on the Hugging Face hub."""
    revision: str | None = None
    """Commit of a model on the hub, or a branch, which is pinned to its current commit."""
    seed: Whole = 0
    """Seed of the tiny policy, separate from the pipeline's seed, so that a sweep over seeds keeps one base."""
    layers: Count = 3
    """Transformer blocks of the tiny policy."""
    hidden: Count = 128
    """Width of the tiny policy."""
    heads: Count = 4
    """Attention heads of the tiny policy."""
    copy_steps: Whole = 400
    """Optimizer steps on random strings to repeat, which teach copying first."""
    copy_batch: Count = 32
    """Strings per copying step."""
    demonstration_steps: Whole = 900
    """Optimizer steps on correct demonstrations."""
    unreliable_steps: Whole = 400
    """Optimizer steps on the demonstrations of an unreliable demonstrator."""
    batch: Count = 16
    """Demonstrations per step."""
    learning_rate: Positive = 0.001
    """Peak learning rate, with warm-up and cosine decay."""
    unreliability: Annotated[list[Share], Field(min_length=2, max_length=2)] = [0.4, 0.8]
    """Range of the probability that the demonstrator takes a look-alike tool or skips a state-changing call."""


class Own(Section):
    """An environment of one's own, on which stage `base` trains the tiny policy, and the other keys that decide the training."""

    environment: str
    split: str
    tasks: Count
    policy: PolicySection
