"""Section `pairs`: preference pairs, and the failure agent that adds hard negatives to them."""

from typing import Literal

from coevolve.core.section import Count, Positive, Section, Share


class FailureAgent(Section):
    """The failure agent's episodes and training, used if ``Pairs.hard`` is above 0."""

    start: Literal["agent", "own"] = "agent"
    """Weights at the start of an iteration: agent, those of the agent in training; own, those of the last failure agent."""
    episodes: Count = 512
    """Episodes that it plays before it learns, if it starts from its own weights."""
    hard_episodes: Count = 1024
    """Episodes that it plays after it has learned, on tasks that the agent failed."""
    closeness: Share = 0.6
    """Closeness from which one of its failures counts as a hard negative."""
    steps: Count = 20
    """Optimizer steps per iteration."""
    batch: Count = 16
    """Pairs of failures per step."""
    learning_rate: Positive = 0.00005
    """Learning rate; at three times this value its failures come less close."""
    beta: Positive = 0.1
    """DPO's beta, towards the failure agent before the update."""


class Pairs(Section):
    margin: Share = 0.1
    """Least distance of a failure's closeness from that of a success, which is 1."""
    per_task: Count = 4
    """Most pairs per task."""
    expert: bool = True
    """Whether reference solutions are preferred too; false uses only the agent's own successes."""
    hard: Share = 0.5
    """Share of a task's pairs whose rejected side is a hard negative; 0 switches the failure agent off."""
    failure_agent: FailureAgent = FailureAgent()
