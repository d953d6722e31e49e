"""Chats in OpenAI's message format and its relatives are read as episodes; what cannot be read is named."""

from typing import Any

import pytest

from coevolve.core.task import CallOutcome, ToolCall
from coevolve.policies.call_format import render_call
from coevolve.rollouts.chats import CALL, PART, REPLY, Unreadable, chat, sound

PAID = {"id": "b", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 5}'}}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "you are an agent"},
        {"role": "user", "content": "pay bob"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "function": {"name": "find", "arguments": {"name": "bob"}}}, PAID],
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


class Read:
    """What ``chat`` returns for ``messages``."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages, self.calls, self.unread = chat(sound(list(messages)))


def answered(answer: str, **message: Any) -> bool:
    """Whether a call with this answer counts as accepted."""
    said = {"role": "assistant", "tool_calls": [PAID]}
    [found] = Read(said, {"role": "tool", "tool_call_id": "b", "content": answer, **message}).calls
    return found.ok


def test_calls_get_the_answers_that_name_them() -> None:
    found = Read(*CHAT["messages"])
    assert found.calls == [
        CallOutcome("find", {"name": "bob"}, True, "c1", 0),
        CallOutcome("pay", {"amount": 5}, False, "Error: too poor", 0),
    ]
    assert '<tool_call>{"name": "find", "arguments": {"name": "bob"}}</tool_call>' in found.messages[2]["content"]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "it has no messages"),
        ([{"role": "robot", "content": "x"}], "message 0: unknown role"),
        ([{"role": "assistant", "tool_calls": 5}], "tool_calls: expected a list"),
        ([{"role": "assistant", "tool_calls": [call({})] * 1001}], "more than 1000 calls in a message"),
        ([{"role": "assistant", "content": render_call(PAY) * 1001}], "more than 1000 calls in a message"),
        ([{"role": "user", "content": "\0"}], "a text holds a NUL"),
    ],
)
def test_unsound_chat_is_a_one_line_error(messages: Any, said: str) -> None:
    with pytest.raises(Unreadable, match=said) as error:
        chat(sound(messages))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("x", "expected JSON"),
        (5, "expected a name and arguments"),
        ({"function": []}, "expected a name and arguments"),
        (call("[" * 10**5), "expected JSON"),
        (call('{"a": 1, "a": 2}'), "a key stands twice"),
        (call([1]), "expected a name and arguments"),
        (call({"a": "x" * 10**5}), "longer than 100000"),
    ],
)
def test_call_that_cannot_be_read_is_counted_and_the_next_keeps_its_answer(entry: Any, said: str) -> None:
    answers = [{"role": "tool", "content": content} for content in ("no", "yes")]
    found = Read({"role": "assistant", "tool_calls": [entry, call({"amount": 5})]}, *answers)
    assert [(one.name, one.observation) for one in found.calls] == [("pay", "yes")]
    [(kind, example)] = found.unread
    assert kind == CALL and said in example


def test_each_call_with_a_repeated_id_gets_one_answer() -> None:
    found = Read(
        {"role": "assistant", "tool_calls": [{**PAID, "id": 7}, {**PAID, "id": 7}, {**PAID, "id": None}]},
        *({"role": "tool", "tool_call_id": 7, "content": content} for content in ("first", "second", "third")),
        {"role": "assistant", "tool_calls": [PAID]},
    )
    assert [outcome.observation for outcome in found.calls] == ["first", "second", "third", ""]
    assert [outcome.ok for outcome in found.calls] == [True, True, True, False]


def test_roles_and_parts_of_other_writers_are_Read() -> None:
    """OpenAI's `developer` and `function`, Gemma's `model`, contents in parts, and calls as JSON texts."""
    found = Read(
        {"role": "developer", "content": "be good"},
        {"role": "user", "content": [{"type": "text", "text": "pay"}, "bob", {"type": "image_url", "image_url": {}}]},
        {"role": "model", "content": None, "function_call": {"name": "pay", "arguments": "{}"}},
        {"role": "function", "name": "pay", "content": [{"type": "text", "text": "paid"}]},
        {"role": "assistant", "tool_calls": ['{"id": "x", "function": {"name": "pay", "arguments": "{}"}}']},
        {"role": "tool", "tool_call_id": "x", "content": {"paid": 5}},
    )
    assert [message["role"] for message in found.messages] == ["system", "user", *["assistant", "tool"] * 2]
    assert found.messages[1]["content"] == "pay\nbob" and found.unread == [(PART, "image_url")]
    assert [(one.ok, one.observation) for one in found.calls] == [(True, "paid"), (True, '{"paid": 5}')]


REFUSED = {
    "TRL": "{'error': \"pay() missing 1 required positional argument: 'amount'\"}",
    "BFCL and AppWorld": '{"error": "No such file"}',
    "MCP result": '{"isError": true, "content": []}',
    "MCP SDK": "Input validation error: 'amount' is a required property",
    "FastMCP": "Unknown tool: pai",
    "FastMCP, exception": "Error executing tool pay: no money",
    "verl": "Error when executing tool: no money",
    "traceback": 'Traceback (most recent call last):\n  File "x", line 1',
    "exception": "ValueError: no money",
    "library": "requests.exceptions.HTTPError: 404",
    "ours": "error: no money",
    "LangChain": "pai is not a valid tool, try one of [pay].",
    "LangGraph": "Error: pai is not a valid tool, try one of [pay].",
}
ACCEPTED = [
    "error_log.txt\nnotes.txt",
    "errors: 3",
    "Error rates fell",
    "Terror: a film",
    "no error: all fine",
    '{"error": null}',
    '{"error": "", "rows": []}',
    '{"error": "none", "rows": []}',
    '{"status": "error"}',
    "{'error': " + "[" * 10**5,
    "",
]


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED)
def test_answer_of_a_known_protocol_refuses_the_call(answer: str) -> None:
    assert not answered(answer) and not answered(f"\n {answer}")
    assert answered(f"the log says {answer}"), "only at the beginning"
    assert answered(answer, isError=False), "the message decides"


@pytest.mark.parametrize("answer", ACCEPTED, ids=lambda answer: answer[:20])
def test_answer_that_looks_like_an_error_is_accepted(answer: str) -> None:
    assert answered(answer)
    for mark in ({"isError": True}, {"is_error": True}, {"status": "error"}):
        assert not answered(answer, **mark)


XML = "<tool_call>\n<function=pay>\n<parameter=amount>\n5\n</parameter>\n</function>\n</tool_call>"
GLM = "<tool_call>pay\n<arg_key>amount</arg_key>\n<arg_value>5</arg_value>\n</tool_call>"
GEMMA = "<|tool_call>call:pay{amount:5}<tool_call|>"
TOOLS = [
    {"type": "function", "function": {"name": "pay", "parameters": {"properties": {"amount": {"type": "integer"}}}}}
]


@pytest.mark.parametrize("text", [XML, GLM, GEMMA, f"<think>{GLM}</think>\nI pay. {XML}"])
def test_calls_of_other_families_have_the_types_of_the_tools(text: str) -> None:
    _, calls, unread = chat(sound([{"role": "assistant", "content": text}]), tools=TOOLS)
    assert [(one.name, one.arguments) for one in calls] == [("pay", {"amount": 5})] and not unread


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{",
        "<tool_call>\n<function=pay>\n<parameter=amount>\n5\n</tool_call>",
        "<function=pay></function>",
        XML + "<parameter=amount>" * 10**5,
        '[TOOL_CALLS][{"name": "pay"}]',
        '<think>no</think>{"name": "pay", "parameters": {"amount": 5}}',
        "<think>no</think>call:pay{amount:5}",
        '<think>no</think><|python_tag|>{"name": "pay"}',
    ],
)
def test_reply_with_marks_but_no_readable_call_is_named(text: str) -> None:
    found = Read({"role": "assistant", "content": f"I pay. {text}"})
    [(kind, example)] = found.unread
    assert not found.calls and kind == REPLY and text.rpartition("</think>")[2] in example


def named(name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "name": name, "content": content}


def uncalled(*names: str) -> dict[str, Any]:
    """A reply that calls tools without ids."""
    return {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": "{}"}} for name in names]}


def test_answers_without_ids_match_by_the_name_of_their_tool() -> None:
    """TRL writes the answers of async tools after all others, and none past its limit of calls."""
    found = Read(uncalled("slow", "pay", "slow", "gone"), named("pay", "paid"), named("slow", "1"), named("slow", "2"))
    assert [(one.name, one.observation, one.ok) for one in found.calls] == [
        ("slow", "1", True), ("pay", "paid", True), ("slow", "2", True), ("gone", "", False)
    ]  # fmt: skip
    found = Read(uncalled("pay", "find"), named("pay", "paid"), named("server", "found"))
    assert [one.observation for one in found.calls] == ["paid", "found"], "names that are no tools' do not decide"
