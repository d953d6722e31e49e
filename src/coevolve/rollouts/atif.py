"""Rollouts in ATIF, the Agent Trajectory Interchange Format of Harbor: a JSON object a file, versions 1.0 to 1.8.

It has no reward, task id, step or flag of refused calls. Its writers put the flags into ``extra``.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coevolve.rollouts.chats import UNTOLD, Message, Unreadable
from coevolve.rollouts.flat_text import ANSWER, ANSWER_END
from coevolve.rollouts.rollout_row import (
    Options,
    Place,
    RolloutFormat,
    RolloutRow,
    inner,
    json_object,
    objects,
    rollout,
)

ROLES = {"system": "system", "user": "user", "agent": "assistant"}
SUBAGENTS = "trajectories with steps or files of sub-agents, which are left out"
HARNESS = "calls that the harness made itself, left out"
MISSING = "trajectories whose continuation is missing or lies in another folder"
LOST = "(the answer has no text)"
FAILED = "[error] tool reported failure"  # Claude Code's adapter ends a refusal with it
ANSWERS = re.compile(rf"\s*(?:{ANSWER}.*?{ANSWER_END}\s*)+", re.DOTALL)
ONE_ANSWER = re.compile(rf"{ANSWER}(.*?){ANSWER_END}", re.DOTALL)


def read(value: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    yield trajectory(value, place, options, None, {})


def trajectory(value: dict[str, Any], place: Place, options: Options, score: Any, others: dict[str, Any]) -> RolloutRow:
    """The rollout of an ATIF object and its continuations, with a ``score`` from elsewhere and ``others`` of its values."""
    steps, agent = _steps(value), inner(value, "agent")
    if steps[0].get("is_copied_context") is True:
        raise Unreadable("a continuation, which is no rollout without its first part")
    steps += _continued(value, place.path, options)
    if value.get("subagent_trajectories") or any(inner(step, "extra").get("is_sidechain") for step in steps):
        options.remark(SUBAGENTS)
    messages: list[Message] = []
    for step in steps:
        if step.get("is_copied_context") is True or inner(step, "extra").get("is_sidechain") is True:
            continue
        if step.get("llm_call_count") == 0 and step.get("tool_calls"):
            options.remark(HARNESS)
            continue
        messages += _messages(step)
    return rollout(
        place.where,
        messages,
        score,
        "score",
        {},
        agent=" ".join(str(agent[key]) for key in ("name", "model_name") if agent.get(key))[:100],
        tools=objects(agent, "tool_definitions"),
        **others,
    )


def _steps(value: dict[str, Any]) -> list[dict[str, Any]]:
    steps = value.get("steps")
    if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
        raise Unreadable("steps: expected a list of steps")
    return list(steps)


def _continued(value: dict[str, Any], path: Path, options: Options) -> list[dict[str, Any]]:
    """The steps of the files that continue a trajectory, each beside the file before it."""
    steps: list[dict[str, Any]] = []
    read_files = {path.resolve()}
    while isinstance(name := value.get("continued_trajectory_ref"), str):
        file = (path.parent / name).resolve()
        if file in read_files or file.parent != path.parent.resolve() or not file.is_file():
            options.remark(MISSING)
            break
        read_files.add(file)
        value = json_object(file)
        steps += _steps(value)
    return steps


def _messages(step: dict[str, Any]) -> Iterator[Message]:
    """The message of a step, and an answer for each of its calls that has one."""
    role, content = ROLES.get(str(step.get("source"))), step.get("message")
    calls, results = step.get("tool_calls") or [], objects(step.get("observation"), "results")
    if role is None:
        raise Unreadable(f"source: expected system, user or agent (found {str(step.get('source'))[:40]})")
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise Unreadable("tool_calls: expected a list of calls")
    if role == "user" and isinstance(content, str) and ANSWERS.fullmatch(content):  # to calls in the agent's text
        yield from ({"role": "tool", "content": text.strip()} for text in ONE_ANSWER.findall(content))
        return
    asked = [
        {"id": str(row), "function": {"name": call.get("function_name"), "arguments": call.get("arguments")}}
        for row, call in enumerate(calls)
    ]
    yield {"role": role, "content": content, **({"tool_calls": asked} if asked else {})}
    for row, call in enumerate(calls):
        if told := _told(results, call.get("tool_call_id"), row, len(calls)):
            yield {"role": "tool", "tool_call_id": str(row), **_answer(told)}


def _told(results: list[dict[str, Any]], name: Any, row: int, calls: int) -> list[dict[str, Any]]:
    """The results of the call ``name``. Without ids they are in the order of the calls, and a single one is of all calls."""
    if any(result.get("source_call_id") is not None for result in results):
        return [result for result in results if result.get("source_call_id") == name]
    return results if len(results) == 1 < calls else results[row : row + 1]


def _answer(results: list[dict[str, Any]]) -> Message:
    """The content of an answer, and whether it refuses its call, if ``extra`` says so."""
    parts: list[Any] = []
    flags: list[bool] = []
    for result in results:
        content, extra = result.get("content"), inner(result, "extra")
        parts += content if isinstance(content, list) else [content or ""]
        flags += [extra[key] for key in ("tool_result_is_error", "is_error") if isinstance(extra.get(key), bool)]
        if extra.get("status") in ("error", "success"):
            flags.append(extra["status"] == "error")
        if extra.get("error") or (isinstance(content, str) and content.rstrip().endswith(FAILED)):
            flags.append(True)
        if content is None and not result.get("subagent_trajectory_ref"):
            parts.append(LOST)
            flags.append(True)
        if isinstance(extra.get("exit_code"), int):
            flags.append(False)  # a shell that ran a command accepted it
    return {"content": [part for part in parts if part], **({"is_error": any(flags)} if flags else {})}


def _claims(row: Any) -> bool:
    return "steps" in row and (str(row.get("schema_version")).startswith("ATIF") or {"agent", "session_id"} <= set(row))


ATIF = RolloutFormat(
    "atif",
    "ATIF (Harbor and its agents)",
    ("*.json",),
    f"no reward, task id or step; {UNTOLD}",
    _claims,
    read,
    others=("*.cont-*.json", "*.summarization-*.json"),
)
