"""Rollouts of NeMo Gym: a line holds the parameters of a request to OpenAI's Responses API, the response, and the reward."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from coevolve.core.trajectories import StopReason
from coevolve.core.untrusted import decode
from coevolve.rollouts.chats import UNTOLD, Unreadable
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, inner, objects, rollout

IDS = ("task_id", "problem_id", "instance_id", "_ng_task_index")  # the best first


def read(row: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    asked, response = inner(row, "responses_create_params"), inner(row, "response")
    failure = str(row.get("_ng_failure_class") or "")[:100]
    if not response and not failure:
        raise Unreadable("it has no response")
    if response.get("error"):
        failure = f"error: {response['error']}"[:100]
    name = options.reward or "reward"
    given = asked.get("input")
    before = messages_of([{"role": "user", "content": given}] if isinstance(given, str) else given or [])
    if isinstance(asked.get("instructions"), str):
        before.insert(0, {"role": "system", "content": asked["instructions"]})
    yield rollout(
        place.where,
        before + messages_of(response.get("output") or []),
        row.get(name),
        name,
        {"task_id": next((row[key] for key in IDS if row.get(key) is not None), None)},
        prompt_messages=len(before),
        failure=failure,
        stop_reason=StopReason.MAX_TOKENS if response.get("incomplete_details") else StopReason.DONE,
        agent=f"{inner(row, 'agent_ref').get('name') or ''} {response.get('model') or ''}".strip()[:100],
        tools=[{"type": "function", "function": tool} for tool in objects(asked, "tools")],
    )


def messages_of(items: Any) -> list[dict[str, Any]]:
    """The messages of items of the Responses API. Calls that follow each other are one reply of the agent."""
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unreadable("input and output: expected lists of items")
    messages: list[dict[str, Any]] = []
    for item in items:
        kind, last = item.get("type") or "message", messages[-1] if messages else {}
        if kind == "message":
            messages.append({"role": item.get("role"), "content": _text(item.get("content"))})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), **_answer(item.get("output"))})
        elif kind == "function_call":
            if last.get("role") != "assistant":
                last = {"role": "assistant", "content": ""}
                messages.append(last)
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            last.setdefault("tool_calls", []).append({"id": item.get("call_id"), "function": function})
    return messages


def _text(content: Any) -> Any:
    """A content whose parts have a text. A refusal is the agent's words."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "text", "text": part["refusal"]} if isinstance(part, dict) and "refusal" in part else part
        for part in content
    ]


def _answer(output: Any) -> dict[str, Any]:
    """The content of an answer, and whether MCP's result in it is an error."""
    with suppress(ValueError, TypeError):
        result = inner(decode(output), "result")
        if "content" in result:
            return {"content": result["content"], "is_error": result.get("isError") is True}
    return {"content": _text(output)}


NEMO_GYM = RolloutFormat(
    "nemo-gym",
    "NeMo Gym",
    ("*.jsonl",),
    f"no step; {UNTOLD}",
    lambda row: "responses_create_params" in row,
    read,
    others=(
        "*_materialized_inputs.jsonl",
        "*_failures.jsonl",
        "*_reward_profiling.jsonl",
        "*_aggregate_metrics.json*",
    ),
)
