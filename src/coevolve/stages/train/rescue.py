"""Rescue: imitate the references of tasks that the agent never solved, since their equal rewards teach nothing.

LUFFY (arXiv 2504.14945) mixes another policy's successful episodes into GRPO. Here the loss has a separate term for
references, and only of unsolved tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.rollout import Limits
from coevolve.stages.train.reference_tokens import Tokens, offered, replayed, tokens


class References:
    """References as token ids; each is replayed at its first use."""

    def __init__(self, environment: Environment, renderer: Renderer, limits: Limits) -> None:
        self._environment, self._renderer, self._limits = environment, renderer, limits
        self._rows: dict[str, Tokens | None] = {}

    def of(self, tasks: Sequence[Task]) -> list[Tokens]:
        """The references of ``tasks`` that succeed in a replay and fit into an episode."""
        new = [task for task in tasks if task.task_id not in self._rows]
        if new:
            episodes = replayed(self._environment, new, self._limits)
            tools = offered(self._environment, new)
            for task in new:
                episode = episodes.get(task.task_id)
                row = tokens(self._renderer, tools[task.task_id], episode) if episode else None
                self._rows[task.task_id] = row if row and len(row) <= self._limits.episode_tokens else None
        return [row for task in tasks if (row := self._rows[task.task_id])]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one pass: left-padded prompts beside right-padded completions, each n × longest.

    ``generated`` is 1 where the agent wrote. ``prompt`` is the number of prompt columns. ``weights`` holds a weight for each row.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    generated: torch.Tensor
    prompt: int
    weights: torch.Tensor

    def loss(self, logps: torch.Tensor) -> torch.Tensor:
        """The weighted sum over rows of the negative mean log-probability of the agent's tokens."""
        means = (logps * self.generated).sum(1) / self.generated.sum(1)
        return -(means * self.weights).sum()


def dealt(rows: Sequence[Tokens], part: int, parts: int, fill: int) -> Rows | None:
    """The rows of pass ``part`` out of ``parts`` equal passes, filled up with rows of weight 0; None without rows."""
    if not rows:
        return None
    count = -(-len(rows) // parts)
    indices = range(part * count, (part + 1) * count)
    share = [rows[index] if index < len(rows) else rows[0] for index in indices]
    prompts, completions = [row.prompt for row in share], [row.completion for row in share]
    before, after = max(map(len, prompts)), max(map(len, completions))

    def padded(left: list[list[int]], right: list[list[int]], empty: int) -> torch.Tensor:
        return torch.tensor(
            [
                [empty] * (before - len(start)) + start + end + [empty] * (after - len(end))
                for start, end in zip(left, right, strict=True)
            ]
        )

    return Rows(
        ids=padded(prompts, completions, fill),
        mask=padded([[1] * len(ids) for ids in prompts], [[1] * len(ids) for ids in completions], 0),
        generated=padded([[]] * len(share), [row.mask for row in share], 0)[:, before:],
        prompt=before,
        weights=torch.tensor([float(index < len(rows)) for index in indices]),
    )
