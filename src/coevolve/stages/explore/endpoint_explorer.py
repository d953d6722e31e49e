"""An LLM as explorer: it reflects on a weakness, then acts in the real environment, conditioned on what it wrote.

CoEvolve (arXiv 2604.15840): a signal and its failed trajectory become a structured exploration context, and the LLM that
explores is conditioned on it. What the environment accepted is kept, also when the budget ends in the middle.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from coevolve.core.concurrency import in_order
from coevolve.core.params import Explore
from coevolve.core.records import Exploration
from coevolve.core.task import CallOutcome, Task
from coevolve.endpoint.client import Endpoint, Exhausted, Failed
from coevolve.endpoint.structured import Broken, ask_json
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge
from coevolve.policies.endpoint_policy import ContextTooShort, EndpointPolicy
from coevolve.prompts.prompt import prompt
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.explorer import accepted, found
from coevolve.stages.explore.requests import Request
from coevolve.stages.signals.kinds import KINDS

SHOWN, OBSERVATION = 30, 400  # calls of the trajectory that the model is shown, and characters of each observation
Sentence = Annotated[str, Field(min_length=1, max_length=2000)]


class Reflection(BaseModel):
    """The structured exploration context that the model owes."""

    what_failed: Sentence
    where: Sentence
    why: Sentence
    ideas: Annotated[list[Sentence], Field(alias="try", min_length=1, max_length=8)]


class EndpointExplorer:
    """See ``coevolve.stages.explore.explorer.Explorer``. ``counts`` says what became of its replies."""

    def __init__(
        self,
        environment: Environment,
        endpoint: Endpoint,
        known: Knowledge,
        config: Explore,
        max_seconds: float,
        counts: Counter[str],
    ) -> None:
        self._environment = environment
        self._known = known
        self._endpoint = endpoint
        self._calls = config.max_calls
        self._limits = Limits(config.max_calls + config.tries, 10**9, endpoint.config.reply_tokens, max_seconds)
        self._tools = ", ".join(tool["function"]["name"] for tool in environment.tools())
        self.counts = counts

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        at_once = self._endpoint.config.concurrency
        return in_order(self._explore, wanted, min(at_once, getattr(self._environment, "capacity", at_once)))

    def _explore(self, request: Request) -> Exploration:
        context: dict[str, Any] = {**request.context, "model": self._endpoint.model, "prompts": []}
        try:
            reflection = self._reflect(request, context)
        except Exhausted:
            self.counts["out of budget"] += 1
            return found(request, "endpoint", context, [])
        return found(request, "endpoint", context, self._act(request, context, reflection))

    def _reflect(self, request: Request, context: dict[str, Any]) -> Reflection | None:
        """What the model makes of the weakness; None where there is none, or where no reply kept the contract."""
        if request.signal is None:
            return None
        words = prompt("reflect")
        text = words.fill(
            kind=request.signal.kind,
            meaning=KINDS[request.signal.kind].meaning,
            instruction="\n".join(request.task.turns),
            trajectory=_trajectory(request),
            score="unknown" if request.failed is None else f"{request.failed.score:g}",
            tools=self._tools,
        )
        context["prompts"].append(words.version)
        try:
            reflection = ask_json(
                self._endpoint, [{"role": "user", "content": text}], Reflection, request.seed, self.counts
            )
        except (Broken, Failed):
            return None  # it explores all the same, led by what the trajectory itself says
        context["reflection"] = reflection.model_dump(by_alias=True)
        return reflection

    def _act(self, request: Request, context: dict[str, Any], reflection: Reflection | None) -> list[CallOutcome]:
        """The calls that the environment accepted of the model."""
        instruction = "\n".join(request.task.turns)
        if request.signal is None:
            words = prompt("explore_random")
            text = words.fill(instruction=instruction, calls=str(self._calls))
        else:
            words = prompt("explore")
            ideas = reflection.ideas if reflection else [f"use {', '.join(request.context['focus'])}"]
            why = f"{reflection.what_failed} {reflection.why}" if reflection else KINDS[request.signal.kind].meaning
            text = words.fill(
                instruction=instruction, why=why, ideas="\n".join(f"- {idea}" for idea in ideas), calls=str(self._calls)
            )
        context["prompts"].append(words.version)
        policy = EndpointPolicy(self._endpoint, self._endpoint.config.temperature)
        task = Task.create(self._environment.name, "exploration", [text], request.world, [[]])
        try:
            [episode] = rollout(
                policy, self._environment, [RolloutRequest(task, request.seed)], self._limits, workers=1
            )
        except ContextTooShort:  # of this task; others may be shorter
            self.counts["unanswered"] += 1
            return []
        self.counts["out of budget"] += policy.exhausted
        self.counts["unanswered"] += len(policy.failures)
        return accepted(episode.trajectory, self._known)[: self._calls]


def _trajectory(request: Request) -> str:
    """A call a line, with the environment's answer."""
    if request.failed is None or not request.failed.calls:
        return "(no calls)"
    return "\n".join(
        f"{call.name}({json.dumps(call.arguments)}) -> {'' if call.ok else 'refused: '}{call.observation[:OBSERVATION]}"
        for call in request.failed.calls[:SHOWN]
    )
