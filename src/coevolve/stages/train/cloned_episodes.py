"""Each batch of GRPO clones episodes of stage `replay`, so that the agent keeps what its tasks do not ask for.

A cloned row has the advantage `ADVANTAGE` and no reward. With ρ_t = 1 at sampling, its gradient is that of a likelihood:

    ∇(ρ_t A) = A ∇log π(y_t)

CLEAR (arXiv 1811.11682) clones replayed behaviour against forgetting, and InstructGPT (arXiv 2203.02155) adds a likelihood of
pretraining data to PPO.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.stages.train.reference_tokens import Tokens, offered, tokens

ADVANTAGE = 1.0  # the standard deviation of advantages in a group


def as_tokens(environment: Environment, episodes: Sequence[Trajectory], renderer: Renderer, room: int) -> list[Tokens]:
    """``episodes`` of training tasks as ids, without those of more than ``room`` tokens."""
    played = {episode.task_id for episode in episodes}
    tasks = [task for split in ("seed", *environment.more_splits) for task in environment.tasks(split)]
    tools = offered(environment, [task for task in tasks if task.task_id in played])
    found = [tokens(renderer, tools[episode.task_id], episode) for episode in episodes]
    return [one for one in found if len(one) <= room]


def clone(scored: Mapping[str, Any], rows: Iterable[int]) -> None:
    """Let TRL's ``scored`` batch clone the ``rows``, at the same weight wherever they were sampled."""
    for row in rows:
        scored["advantages"][row] = ADVANTAGE
        if "importance_sampling_ratio" in scored:
            scored["importance_sampling_ratio"][row] = 1.0
