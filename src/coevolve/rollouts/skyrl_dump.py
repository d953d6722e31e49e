"""Rollouts of SkyRL: dumped_evals/global_step_N_evals/SOURCE.jsonl, a decoded prompt and response a line."""

import re
from collections.abc import Iterator
from typing import Any

from coevolve.core.trajectories import StopReason
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.flat_text import messages_of
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, inner, number, rollout

STEP = re.compile(r"global_step_(\d+)")  # of the folder
EVALUATIONS = "rollouts of evaluations: tasks that grow from them lie beside your test set"


def read(row: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    prompt, response = row.get("input_prompt"), row.get("output_response")
    if not isinstance(prompt, str) or not isinstance(response, str):
        raise Unreadable("expected input_prompt and output_response, texts")
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


SKYRL = RolloutFormat(
    "skyrl",
    "SkyRL (dumped evaluations)",
    ("*.jsonl",),
    "no task id without extra_info.index; calls and answers are those in <tool_call> and <tool_response> tags",
    lambda row: {"input_prompt", "output_response"} <= set(row),
    read,
    others=("aggregated_results.jsonl",),
)
