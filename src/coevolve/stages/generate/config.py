"""Section `generate`: the task generator and its training (GenEnv)."""

from typing import Annotated, Literal

from pydantic import Field

from coevolve.core.section import Count, NotNegative, Positive, Section, Share


class Generate(Section):
    model: str = "none"
    """The task generator: none; tiny, trained for the environment's tools in minutes; a path, or a name on the hub."""
    revision: str | None = None
    """Commit or branch of a model on the hub."""
    frozen: bool = False
    """Whether the generator stays as it is."""
    variations: Count = 4
    """Generations per task that is varied."""
    temperature: Positive = 1.0
    """Sampling temperature of the generator."""
    unit: Literal["task", "batch"] = "task"
    """Unit of the reward: task, one per generation; batch, one for all variations of a task, as in GenEnv."""
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    """Target success rate of the agent."""
    beta: Positive = 8.0
    """Sharpness of the reward R = exp(-beta (p - alpha)^2)."""
    band: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Largest distance of p from alpha at which the generator learns from a generation."""
    inverse_temperature: NotNegative = 5.0
    """Coefficient c of the weights exp(c R)."""
    discount: Share = 0.5
    """Weight decay per iteration of age."""
    kl: NotNegative = 0.1
    """Weight of the KL divergence from the initial generator."""
    max_kl: Positive = 2.0
    """KL divergence of a whole spec, in nats, at which the update ends."""
    steps: Count = 20
    """Optimizer steps per iteration."""
    batch: Count = 64
    """Generations per step."""
    learning_rate: Positive = 0.0005
    """Learning rate of the generator."""
