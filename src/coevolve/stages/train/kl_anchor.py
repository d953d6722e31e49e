"""The anchor: the policy that GRPO's KL term and DPO's log-ratios pull the agent towards.

The literature calls it the reference policy. Here a reference is the solution of a task.
"""

from pathlib import Path

from coevolve.stages.train.learner import Job, Shared


def anchor(settings: Shared, job: Job) -> Path:
    """The model directory of the anchor."""
    return job.base if settings.train.anchor == "base" else job.parent
