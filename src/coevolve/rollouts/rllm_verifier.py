"""The verifier of rLLM datasets that `coevolve export tasks --for rllm` writes: it replays the agent's calls."""

import json
from functools import cache
from typing import Any

from coevolve.environments import replay, wire
from coevolve.environments.registry import make
from coevolve.rollouts.chats import chat, sound

world = cache(make)


def evaluate(metadata: dict[str, Any], trajectory: dict[str, Any]) -> float:
    """The environment's score of the calls in the last chat of ``trajectory``. ``metadata`` is the row."""
    steps = trajectory.get("steps") or [{"chat_completions": []}]
    messages = steps[-1]["chat_completions"]
    if not messages:
        return 0.0
    plain, calls, _ = chat(sound(messages))
    requests = [replay.call(one.name, one.arguments) for one in calls]
    last = plain[-1]["content"] if plain[-1]["role"] == "assistant" else ""
    task = wire.to_task(json.loads(metadata["task"]))
    return replay.score(world(metadata["environment"]), task, [*requests, replay.say(last)]).reward
