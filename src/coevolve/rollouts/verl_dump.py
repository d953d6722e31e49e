"""Rollouts of verl: STEP.jsonl in the folder `trainer.rollout_data_dir`, a decoded prompt and response a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coevolve.rollouts.flat_text import messages_of
from coevolve.rollouts.rollout_row import (
    Options,
    RolloutFormat,
    RolloutRow,
    Rows,
    Unreadable,
    json_rows,
    number,
    sound_messages,
    stated_id,
    step_of,
)


def read(path: Path, name: str, options: Options) -> Rows:
    def rollout(row: dict[str, Any], where: str) -> Iterator[RolloutRow]:
        prompt, response = row.get("input"), row.get("output")
        if not isinstance(prompt, str) or not isinstance(response, str):
            raise Unreadable("expected input and output, texts")
        reward = options.reward or "score"
        if reward not in row:
            raise Unreadable(f"missing key {reward}")
        yield RolloutRow(
            where,
            sound_messages(messages_of(prompt, response)),
            number(row[reward], reward),
            step=step_of(row.get("step")),
            prompt=prompt,
            task_id=stated_id(row.get("task_id")),
        )

    return json_rows(path, name, options, rollout)


VERL = RolloutFormat(
    "verl",
    "verl",
    "[0-9]*.jsonl",
    "no task id unless the reward function returns a task_id; calls and answers are those in <tool_call> and <tool_response> "
    "tags",
    lambda row: {"input", "output", "score"} <= set(row),
    read,
)
