"""Chats in OpenAI's message format are read as episodes; invalid ones are one-line errors."""

import json
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.policies.agent_prompt import render_call
from coevolve.rollouts.chats import episode

CALL = {"id": "b", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 5}'}}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "you are an agent"},
        {"role": "user", "content": "pay bob"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "function": {"name": "find", "arguments": {"name": "bob"}}}, CALL],
        },
        {"role": "tool", "tool_call_id": "b", "content": "Error: too poor"},
        {"role": "tool", "tool_call_id": "a", "content": "c1"},
        {"role": "user", "content": "then leave it"},
        {"role": "assistant", "content": "done"},
    ],
    "reward": 0.25,
    "step": 3,
}


PAY = ToolCall("pay", {"amount": 5})


def call(arguments: Any) -> dict[str, Any]:
    return {"function": {"name": "pay", "arguments": arguments}}


def test_calls_get_the_answers_that_name_them() -> None:
    found = episode(CHAT, "here", 0, None)
    assert [(one.name, one.arguments, one.ok, one.observation, one.turn) for one in found.calls] == [
        ("find", {"name": "bob"}, True, "c1", 0),
        ("pay", {"amount": 5}, False, "Error: too poor", 0),
    ]
    assert (found.score, found.step, found.iteration) == (0.25, 3, 0)
    assert '<tool_call>{"name": "find", "arguments": {"name": "bob"}}</tool_call>' in found.messages[2]["content"]


def test_episodes_with_the_same_beginning_share_a_task_id() -> None:
    other = {**CHAT, "messages": [*CHAT["messages"][:2], {"role": "assistant", "content": "no"}]}
    another = {**CHAT, "messages": [{"role": "user", "content": "else"}]}
    ids = [episode(one, "here", 0, None).task_id for one in (CHAT, other, another)]
    assert ids[0] == ids[1] != ids[2]
    assert episode({**CHAT, "task_id": "mine"}, "here", 0, None).task_id == "mine"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reward": None}, "score: expected a number"),
        ({"reward": float("nan")}, "score"),
        ({"step": -1}, "step"),
        ({"task_id": 7}, "task_id"),
        ({"messages": []}, "messages: expected a list"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "message 0: expected role"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "message 0: expected role"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": "{"}}]}]},
            "a tool call",
        ),
        ({"messages": [{"role": "assistant", "tool_calls": ["x"]}]}, "a tool call"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "message 0: tool_calls: expected a list"),
        ({"messages": [{"role": "assistant", "tool_calls": True}]}, "message 0: tool_calls: expected a list"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": []}]}]}, "a tool call needs a name"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": "x"}]}]}, "a tool call needs a name"),
        ({"messages": [{"role": "assistant", "tool_calls": [call("[" * 10**5)]}]}, "arguments: expected JSON"),
        ({"messages": [{"role": "assistant", "tool_calls": [call('{"a": 1, "a": 2}')]}]}, "a key stands twice"),
        ({"messages": [{"role": "assistant", "tool_calls": [call({"a": "x" * 10**5})]}]}, "longer than 100000"),
        ({"messages": [{"role": "assistant", "tool_calls": [call({})] * 1001}]}, "1001 calls in a message"),
        ({"messages": [{"role": "assistant", "content": render_call(PAY) * 1001}]}, "1001 calls in a message"),
        ({"reward": 5}, "score: expected a number from 0 to 1"),
    ],
)
def test_invalid_episode_is_a_one_line_error(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(CoevolveError, match=said) as error:
        episode({**CHAT, **changes}, "file:4", 0, None)
    assert str(error.value).startswith("file:4") and "\n" not in str(error.value)


def test_default_score_applies_to_episodes_without_one() -> None:
    bare = json.loads(json.dumps({"messages": CHAT["messages"]}))
    assert episode(bare, "here", 0, 1.0).score == 1.0


def test_each_call_with_a_repeated_id_gets_one_answer() -> None:
    messages = [
        {"role": "assistant", "tool_calls": [{**CALL, "id": 7}, {**CALL, "id": 7}, {**CALL, "id": None}]},
        *({"role": "tool", "tool_call_id": 7, "content": content} for content in ("first", "second", "third")),
        {"role": "assistant", "tool_calls": [CALL]},
    ]
    found = episode({"messages": messages, "score": 1}, "here", 0, None)
    assert [outcome.observation for outcome in found.calls] == ["first", "second", "third", ""]
