"""Rescue: a task that was never solved teaches nothing by its rewards, which are all equal, but its reference can be imitated.

As LUFFY (arXiv 2504.14945) mixes another policy's right episodes into GRPO; here a term of its own, for unsolved tasks alone.
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
    """References as token ids, each replayed when it is first asked for."""

    def __init__(self, environment: Environment, renderer: Renderer, limits: Limits) -> None:
        self._environment, self._renderer, self._limits = environment, renderer, limits
        self._known: dict[str, Tokens | None] = {}

    def of(self, tasks: Sequence[Task]) -> list[Tokens]:
        """Those of ``tasks`` that succeed when they are replayed and fit into an episode."""
        new = [task for task in tasks if task.task_id not in self._known]
        if new:
            episodes = replayed(self._environment, new, self._limits)
            tools = offered(self._environment, new)
            for task in new:
                one = episodes.get(task.task_id)
                row = tokens(self._renderer, tools[task.task_id], one) if one else None
                self._known[task.task_id] = row if row and len(row) <= self._limits.episode_tokens else None
        return [row for task in tasks if (row := self._known[task.task_id])]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one pass, left-padded prompts beside right-padded completions: n × longest each; ``own`` is 1 where the agent
    wrote, ``prompt`` the columns of the prompts, ``weights`` what each row counts.
    """

    ids: torch.Tensor
    mask: torch.Tensor
    own: torch.Tensor
    prompt: int
    weights: torch.Tensor

    def loss(self, logps: torch.Tensor) -> torch.Tensor:
        """Of the completions' log-probabilities: the weighted sum of each row's negative mean over what the agent wrote."""
        means = (logps * self.own).sum(1) / self.own.sum(1)
        return -(means * self.weights).sum()


def dealt(rows: Sequence[Tokens], part: int, parts: int, fill: int) -> Rows | None:
    """The rows of one of ``parts`` passes, as many for each: where they do not come out even, rows that count nothing are
    added. None without any.
    """
    if not rows:
        return None
    count = -(-len(rows) // parts)
    own = [
        (rows[place], 1.0) if place < len(rows) else (rows[0], 0.0) for place in range(part * count, (part + 1) * count)
    ]
    before, after = max(len(row.prompt) for row, _ in own), max(len(row.completion) for row, _ in own)

    def laid(left: list[list[int]], right: list[list[int]], empty: int) -> torch.Tensor:
        return torch.tensor(
            [
                [empty] * (before - len(one)) + one + other + [empty] * (after - len(other))
                for one, other in zip(left, right, strict=True)
            ]
        )

    prompts, completions = [row.prompt for row, _ in own], [row.completion for row, _ in own]
    return Rows(
        ids=laid(prompts, completions, fill),
        mask=laid([[1] * len(one) for one in prompts], [[1] * len(one) for one in completions], 0),
        own=laid([[]] * len(own), [row.mask for row, _ in own], 0)[:, before:],
        prompt=before,
        weights=torch.tensor([weight for _, weight in own]),
    )
