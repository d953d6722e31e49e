"""An LLM as explorer: it reflects on a weakness, then acts in the real environment, conditioned on what it wrote.

CoEvolve (arXiv 2604.15840): a signal and its failed trajectory become a structured exploration context, and the LLM that
explores is conditioned on it. What the environment accepted is kept, also when the budget ends in the middle.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from coevolve.core.concurrency import in_order
from coevolve.core.records import Exploration, Reflection, Signal
from coevolve.core.task import CallOutcome, Task
from coevolve.endpoint.client import Endpoint, Exhausted, Failed
from coevolve.endpoint.structured import Broken, ask_json
from coevolve.environments.environment import Environment
from coevolve.knowledge import Knowledge
from coevolve.policies.endpoint_policy import ContextTooShort, EndpointPolicy
from coevolve.prompts.prompt import Prompt, prompt, quoted, quoted_call, quoted_lines, quoted_name
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import Means, accepted, record
from coevolve.stages.explore.guidance import draw_tools
from coevolve.stages.explore.requests import Request
from coevolve.stages.signals.kinds import KINDS

SHOWN, OBSERVATION = 30, 400  # calls of the trajectory that the model is shown, and characters of each observation
NAMED = 3  # draws of tools that the model is asked to try where there is no weakness, by the guidance's weights
Sentence = Annotated[str, Field(min_length=1, max_length=2000)]


class ReflectionReply(BaseModel):
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
        self._tools = [tool["function"]["name"] for tool in environment.tools()]
        self.counts = counts

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        at_once = self._endpoint.config.concurrency
        return in_order(self._explore, wanted, min(at_once, self._environment.capacity or at_once))

    def _explore(self, request: Request) -> Exploration:
        return self._anywhere(request) if request.signal is None else self._around(request, request.signal)

    def _anywhere(self, request: Request) -> Exploration:
        """Led by tools that are drawn as the guidance weighs them: those that change something, if any is known to."""
        names = [name for name in self._tools if name != self._known.terminal]
        names = [name for name in names if name not in self._known.reading] or names
        goals = list(dict.fromkeys(draw_tools(names, request.tools, NAMED, random.Random(request.seed))))
        words = prompt("explore_tools")
        text = words.fill(
            instruction=quoted_lines(request.task.turns),
            ideas=f"- use {', '.join(map(quoted_name, goals))}",
            calls=str(self._calls),
        )
        return record(request, "endpoint", self._act(request, text), goals, prompts=[words.version])

    def _around(self, request: Request, signal: Signal) -> Exploration:
        """Led by what the model makes of the weakness."""
        reflect, words = prompt("reflect"), prompt("explore")
        try:
            reflection = self._reflect(request, signal, reflect)
        except Exhausted:
            self.counts["out of budget"] += 1
            return record(request, "endpoint", [], prompts=[reflect.version])
        # what the model made of hostile text may be hostile as well
        ideas = map(quoted, reflection.ideas) if reflection else [f"use {', '.join(map(quoted_name, request.focus))}"]
        why = quoted(f"{reflection.what_failed} {reflection.why}") if reflection else KINDS[signal.kind].meaning
        text = words.fill(
            instruction=quoted_lines(request.task.turns),
            why=why,
            ideas="\n".join(f"- {idea}" for idea in ideas),
            calls=str(self._calls),
        )
        versions = [reflect.version, words.version]
        return record(request, "endpoint", self._act(request, text), reflection=reflection, prompts=versions)

    def _reflect(self, request: Request, signal: Signal, words: Prompt) -> Reflection | None:
        """What the model makes of the weakness; None where no reply kept the contract."""
        text = words.fill(
            kind=signal.kind,
            meaning=KINDS[signal.kind].meaning,
            instruction=quoted_lines(request.task.turns),
            trajectory=_trajectory(request),
            score="unknown" if request.failed is None else f"{request.failed.score:g}",
            tools=", ".join(map(quoted_name, self._tools)),
        )
        try:
            reply = ask_json(
                self._endpoint, [{"role": "user", "content": text}], ReflectionReply, request.seed, self.counts
            )
        except (Broken, Failed):
            return None  # it explores all the same, led by what the trajectory itself says
        return Reflection(reply.what_failed, reply.where, reply.why, reply.ideas)

    def _act(self, request: Request, text: str) -> list[CallOutcome]:
        """The calls that the environment accepted of the model, told ``text``."""
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
        f"{quoted_call(call.name, call.arguments)} -> {'' if call.ok else 'refused: '}{quoted(call.observation, OBSERVATION)}"
        for call in request.failed.calls[:SHOWN]
    )


def make(config: Explore, means: Means) -> EndpointExplorer:
    assert means.meter.endpoint is not None
    endpoint, seconds = means.meter.endpoint, means.acting.max_seconds
    return EndpointExplorer(means.environment, endpoint, means.known, config, seconds, means.meter.counts)
