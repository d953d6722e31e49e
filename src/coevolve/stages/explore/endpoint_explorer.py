"""An LLM as explorer: it reflects on a weakness, then acts in the real environment, conditioned on its reflection.

CoEvolve (arXiv 2604.15840) turns a signal and its failed trajectory into a structured exploration context, and
conditions the exploring LLM on it. Calls that the environment accepted are kept, even if the budget ends early.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from coevolve.core.concurrency import in_order
from coevolve.core.records import Exploration, Reflection, Signal
from coevolve.core.task import CallOutcome, Task
from coevolve.endpoint.client import Exhausted, Failed
from coevolve.endpoint.structured import Broken, ask_json
from coevolve.policies.endpoint_policy import EndpointPolicy
from coevolve.prompts.prompt import Prompt, prompt, quoted, quoted_call, quoted_lines, quoted_name
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import Means, accepted, record
from coevolve.stages.explore.guidance import draw_tools
from coevolve.stages.explore.requests import Request
from coevolve.stages.signals.extract import KINDS

SHOWN, OBSERVATION = 30, 400  # calls of the trajectory in the prompt, and characters of each observation
NAMED = 3  # draws of tools for a prompt without a weakness, by the guidance's weights
Sentence = Annotated[str, Field(min_length=1, max_length=2000)]


class ReflectionReply(BaseModel):
    """The structured exploration context that the model must return."""

    what_failed: Sentence
    where: Sentence
    why: Sentence
    ideas: Annotated[list[Sentence], Field(alias="try", min_length=1, max_length=8)]


class EndpointExplorer:
    """See ``coevolve.stages.explore.explorer.Explorer``. ``counts`` counts unusable replies by reason."""

    def __init__(self, config: Explore, means: Means) -> None:
        assert means.meter.endpoint is not None
        self.config, self.environment, self.knowledge = config, means.environment, means.knowledge
        self.endpoint, self.counts = means.meter.endpoint, means.meter.counts
        self._max_seconds = means.acting.max_seconds
        self._tools = [tool["function"]["name"] for tool in self.environment.tools()]
        self.causes: list[str] = []

    def explore(self, requests: Sequence[Request]) -> Iterator[Exploration]:
        concurrency = self.endpoint.config.concurrency
        return in_order(self._explore, requests, min(concurrency, self.environment.capacity or concurrency))

    def _explore(self, request: Request) -> Exploration:
        """Explore around a weakness, or else with tools drawn by the guidance's weights.

        The tools are among those that change the state, if any are known.
        """
        if request.signal is not None:
            return self._around(request, request.signal)
        names = [name for name in self._tools if name != self.knowledge.terminal]
        names = [name for name in names if name not in self.knowledge.reading] or names
        goals = list(dict.fromkeys(draw_tools(names, request.tools, NAMED, random.Random(request.seed))))
        template = prompt("explore_tools")
        text = template.fill(
            instruction=quoted_lines(request.task.turns),
            ideas=f"- use {', '.join(map(quoted_name, goals))}",
            calls=str(self.config.max_calls),
        )
        return record(request, "endpoint", self._act(request, text), goals, prompts=[template.version])

    def _around(self, request: Request, signal: Signal) -> Exploration:
        """Explore by the model's reflection on the weakness."""
        reflect_template, explore_template = prompt("reflect"), prompt("explore")
        try:
            reflection = self._reflect(request, signal, reflect_template)
        except Exhausted:
            self.counts["out of budget"] += 1
            return record(request, "endpoint", [], prompts=[reflect_template.version])
        # a reflection on hostile text may be hostile as well
        ideas = map(quoted, reflection.ideas) if reflection else [f"use {', '.join(map(quoted_name, request.focus))}"]
        why = quoted(f"{reflection.what_failed} {reflection.why}") if reflection else KINDS[signal.kind].meaning
        text = explore_template.fill(
            instruction=quoted_lines(request.task.turns),
            why=why,
            ideas="\n".join(f"- {idea}" for idea in ideas),
            calls=str(self.config.max_calls),
        )
        versions = [reflect_template.version, explore_template.version]
        return record(request, "endpoint", self._act(request, text), reflection=reflection, prompts=versions)

    def _reflect(self, request: Request, signal: Signal, template: Prompt) -> Reflection | None:
        """The model's reflection on the weakness; None if no reply followed the schema."""
        text = template.fill(
            kind=signal.kind,
            meaning=KINDS[signal.kind].meaning,
            instruction=quoted_lines(request.task.turns),
            trajectory=_trajectory(request),
            score="unknown" if request.failed is None else f"{request.failed.score:g}",
            tools=", ".join(map(quoted_name, self._tools)),
        )
        try:
            reply = ask_json(
                self.endpoint, [{"role": "user", "content": text}], ReflectionReply, request.seed, self.counts
            )
        except (Broken, Failed):
            return None  # the model still explores, by the focus of the request
        return Reflection(reply.what_failed, reply.where, reply.why, reply.ideas)

    def _act(self, request: Request, text: str) -> list[CallOutcome]:
        """The calls that the environment accepted from the model after the instruction ``text``."""
        policy = EndpointPolicy(self.endpoint, self.endpoint.config.temperature)
        task = Task.create(self.environment.name, "exploration", [text], request.world, [[]])
        config, reply_tokens = self.config, self.endpoint.config.reply_tokens
        limits = Limits(config.max_calls + config.tries, 10**9, reply_tokens, self._max_seconds)
        [episode] = rollout(policy, self.environment, [RolloutRequest(task, request.seed)], limits, workers=1)
        self.counts["out of budget"] += policy.exhausted
        self.counts["unanswered"] += len(policy.failures)
        if not policy.failures:
            self.causes += filter(None, episode.trajectory.end[1:])
        return accepted(episode.trajectory, self.knowledge)[: self.config.max_calls]


def _trajectory(request: Request) -> str:
    """The failed calls, one per line, with the environment's answers."""
    if request.failed is None or not request.failed.calls:
        return "(no calls)"
    return "\n".join(
        f"{quoted_call(call.name, call.arguments)} -> {'' if call.ok else 'refused: '}{quoted(call.observation, OBSERVATION)}"
        for call in request.failed.calls[:SHOWN]
    )


make = EndpointExplorer
