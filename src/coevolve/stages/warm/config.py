"""Section `warm`: supervised learning before the loop, for a model that does not act yet."""

from typing import Annotated

from pydantic import Field, model_validator

from coevolve.core.section import Count, Positive, Section, Share, Whole


class Warm(Section):
    steps: Whole = 0
    """Most optimizer steps on successful episodes before the loop; 0 keeps the base as it is."""
    until: Share | None = 0.5
    """Success on held-out training tasks that ends the warm start early; null takes all steps, and so do unreliable_steps."""
    unreliable_steps: Whole = 0
    """Further steps on episodes of an unreliable demonstrator, which make the agent capable but unreliable."""
    batch: Count = 4
    """Episodes per step."""
    micro_batch: Whole = 0
    """Episodes in one forward and backward pass of a process; 0 means a quarter of its share of a step."""
    learning_rate: Positive = 0.0004
    """Constant learning rate; adapters need a larger one."""
    adapters: bool = False
    """Whether the warm start trains adapters as train.lora describes them, instead of all weights."""
    split: str = "seed"
    """Training split whose references are imitated; `coevolve env show` lists the splits."""
    tasks: Count = 256
    """Number of tasks to take from the start of the split."""
    demonstrations: str | None = None
    """File of episodes to imitate instead, as `coevolve import messages` writes; after an edit run `dvc repro -f warm`."""
    unreliability: Annotated[list[Share], Field(min_length=2, max_length=2)] = [0.4, 0.8]
    """Range of the probability that the demonstrator takes a look-alike tool or skips a state-changing call."""

    @property
    def checked(self) -> bool:
        """Whether tasks are held out, on which the stage measures success."""
        return self.until is not None and not self.unreliable_steps

    @model_validator(mode="after")
    def _demonstrator(self) -> "Warm":
        if self.unreliable_steps and self.demonstrations is not None:
            raise ValueError(
                "unreliable_steps and demonstrations do not go together: only references can be corrupted on purpose"
            )
        return self
