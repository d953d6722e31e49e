"""Rollouts with a decoded prompt and response a line, of verl (STEP.jsonl in the folder `trainer.rollout_data_dir`) and of SkyRL
(dumped_evals/global_step_N_evals/SOURCE.jsonl).
"""

import re
from collections.abc import Iterator
from typing import Any

from coevolve.core.trajectories import StopReason
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.flat_text import messages_of
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, inner, number, rollout

STEP = re.compile(r"global_step_(\d+)")  # of the folder
EVALUATIONS = "rollouts of evaluations: tasks that grow from them lie beside your test set"


def texts(row: dict[str, Any], *keys: str) -> list[str]:
    found = [row.get(key) for key in keys]
    if not all(isinstance(text, str) for text in found):
        raise Unreadable(f"expected {' and '.join(keys)}, texts")
    return [str(text) for text in found]


def read_verl(row: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    reward = options.reward or "score"
    prompt, response = texts(row, "input", "output")
    if reward not in row:
        raise Unreadable(f"missing key {reward}")
    yield rollout(place.where, messages_of(prompt, response), row[reward], reward, row, prompt=prompt)


def read_skyrl(row: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    prompt, response = texts(row, "input_prompt", "output_response")
    name, step = options.reward or "score", STEP.search(place.path.parent.name)
    score = row.get(name)
    if isinstance(score, list):  # a number for each token
        score = sum(number(value, name) for value in score)
    options.remark(EVALUATIONS)
    yield rollout(
        place.where,
        messages_of(prompt, response),
        score,
        name,
        {"task_id": _task(row), "step": int(step[1]) if step else None},
        prompt=prompt,
        stop_reason=StopReason.MAX_TOKENS if row.get("stop_reason") == "length" else StopReason.DONE,
    )


def _task(row: dict[str, Any]) -> str | None:
    """The number of the row in its data source, if the columns of the data set hold it."""
    index = inner(inner(row, "env_extras"), "extra_info").get("index")
    return f"{row.get('data_source')}/{index}" if isinstance(index, int | str) else None


VERL = RolloutFormat(
    "verl",
    "verl",
    ("[0-9]*.jsonl",),
    "no task id unless the reward function returns a task_id; calls and answers are those in <tool_call> and <tool_response> "
    "tags",
    lambda row: {"input", "output", "score"} <= set(row),
    read_verl,
)
SKYRL = RolloutFormat(
    "skyrl",
    "SkyRL (dumped evaluations)",
    ("*.jsonl",),
    "no task id without extra_info.index; calls and answers are those in <tool_call> and <tool_response> tags",
    lambda row: {"input_prompt", "output_response"} <= set(row),
    read_skyrl,
    others=("aggregated_results.jsonl",),
)
