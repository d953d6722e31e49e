"""The policy that training pulls the agent back to: by GRPO's KL term, and by the log-ratios of DPO.

The literature calls it the reference policy. Here a reference is a task's solution, so this policy is the anchor.
"""

from pathlib import Path

from coevolve.stages.train.learner import Job, Shared


def anchor(settings: Shared, job: Job) -> Path:
    """The policy that the KL term, or DPO's log-ratios, pull towards."""
    return job.base if settings.train.anchor == "base" else job.parent
