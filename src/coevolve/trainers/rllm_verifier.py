"""The verifier of rLLM datasets that `coevolve export tasks --for rllm` writes: it replays the agent's calls."""

from typing import Any

from coevolve.rollouts.chats import chat, sound
from coevolve.trainers import replay


def evaluate(metadata: dict[str, Any], trajectory: dict[str, Any]) -> float:
    """The environment's score of the calls in the last chat of ``trajectory``. ``metadata`` is the row."""
    steps = trajectory.get("steps") or [{"chat_completions": []}]
    messages = steps[-1]["chat_completions"]
    if not messages:
        return 0.0
    plain, calls, _ = chat(sound(messages))
    requests = [replay.call(one.name, one.arguments) for one in calls]
    last = plain[-1]["content"] if plain[-1]["role"] == "assistant" else ""
    return replay.score(*replay.of_row(metadata), [*requests, replay.say(last)]).reward
