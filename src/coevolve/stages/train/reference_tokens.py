"""Turn stored episodes into token ids, and replay references as episodes: data that the policy has not just sampled."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.core.untrusted import one_line
from coevolve.environments.environment import Environment
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout

Tools = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tokens:
    """An episode as ids. Over the completion, ``mask`` is 1 where the agent wrote and 0 where the environment did."""

    prompt: list[int]
    completion: list[int]
    mask: list[int]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


class Example(NamedTuple):
    """A pair as ids."""

    chosen: Tokens
    rejected: Tokens


def replayed(environment: Environment, tasks: Sequence[Task], limits: Limits) -> dict[str, Trajectory]:
    """The episode of each task's reference, by task id, without references that fail."""
    requests = [RolloutRequest(task, 0, sample=-1) for task in tasks if any(task.reference)]
    episodes = rollout(ReferencePolicy(environment), environment, requests, limits)
    return {
        episode.trajectory.task_id: episode.trajectory
        for episode in episodes
        if episode.trajectory.counts and is_success(episode.trajectory.score)
    }


def failing(environment: Environment, task: Task, limits: Limits) -> str:
    """The reason why the reference of ``task`` fails; empty if it succeeds."""
    (episode,) = rollout(ReferencePolicy(environment), environment, [RolloutRequest(task, 0)], limits)
    played = episode.trajectory
    if played.counts and is_success(played.score):
        return ""
    if played.stop_reason in (StopReason.DONE, StopReason.MAX_TURNS, StopReason.MAX_TOKENS):
        refused = next(
            (f", for {call.name} is refused: {call.observation}" for call in played.calls if not call.ok), ""
        )
        return one_line(f"it ends with {played.stop_reason} and the score {played.score:g}{refused}", 400)
    return one_line(played.messages[-1]["content"], 400)


def tokens(renderer: Renderer, tools: Tools, episode: Trajectory) -> Tokens:
    """The ids of ``episode``, which offered ``tools`` at its start, up to the agent's last token."""
    replies = [index for index, message in enumerate(episode.messages) if message["role"] == "assistant"]
    prompt = renderer.first(episode.messages[: replies[0]], tools)
    completion: list[int] = []
    mask: list[int] = []
    for index, following in zip(replies, [*replies[1:], None], strict=True):
        cut = following is None and episode.stop_reason is StopReason.MAX_TOKENS
        said = episode.messages[index]["content"]
        reply = renderer.reply(said, ended=not cut)
        observed = renderer.later(episode.messages[index + 1 : following], said) if following else []
        completion += reply + observed
        mask += [1] * len(reply) + [0] * len(observed)
    end = len(mask) - mask[::-1].index(1) if 1 in mask else 0
    return Tokens(prompt, completion[:end], mask[:end])


def offered(environment: Environment, tasks: Sequence[Task]) -> Mapping[str, Tools]:
    """The tools that each task offers at its start."""
    with closing(environment.open()) as session:
        return {task.task_id: session.reset(task).tools or [] for task in tasks}
