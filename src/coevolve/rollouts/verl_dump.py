"""Rollouts of verl: STEP.jsonl in the folder `trainer.rollout_data_dir`, a decoded prompt and response a line."""

from collections.abc import Iterator
from typing import Any

from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.flat_text import messages_of
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, rollout


def read(row: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    reward = options.reward or "score"
    prompt, response = row.get("input"), row.get("output")
    if not isinstance(prompt, str) or not isinstance(response, str):
        raise Unreadable("expected input and output, texts")
    if reward not in row:
        raise Unreadable(f"missing key {reward}")
    yield rollout(place.where, messages_of(prompt, response), row[reward], reward, row, prompt=prompt)


VERL = RolloutFormat(
    "verl",
    "verl",
    ("[0-9]*.jsonl",),
    "no task id unless the reward function returns a task_id; calls and answers are those in <tool_call> and <tool_response> "
    "tags",
    lambda row: {"input", "output", "score"} <= set(row),
    read,
)
