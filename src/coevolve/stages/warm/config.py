"""Section `warm`: supervised learning before the loop, for a model that does not act yet."""

from coevolve.core.section import Count, Positive, Section, Share, Whole

NEW_WORDS = {
    "steps": 1000,
    "batch": 16,
    "learning_rate": 0.002,
}  # in which the tiny policy learns a user's own environment


class Warm(Section):
    steps: Whole = 0
    """Most optimizer steps on successful episodes before the loop; 0 keeps the base as it is."""
    until: Share | None = 0.5
    """Success on held-out training tasks that ends the warm start early; null holds none out and takes all steps."""
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
