import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.task import ToolCall
from coevolve.policies.call_format import parse_reply, render_call
from tests.unit.core.test_task import JSON


@given(st.lists(st.builds(ToolCall, st.text(min_size=1), st.dictionaries(st.text(), JSON, max_size=3)), max_size=3))
def test_rendered_calls_are_parsed_back(calls: list[ToolCall]) -> None:
    text = "thinking " + "\n".join(render_call(call) for call in calls)
    if "tool_call>" in "".join(str(call) for call in calls):
        return
    assert parse_reply(text) == (calls, "")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<tool_call>{", "must end with"),
        ("<tool_call>{</tool_call>", "must be JSON"),
        ("<tool_call>[]</tool_call>", "must be {"),
        ('<tool_call>{"name": 3}</tool_call>', "must be {"),
        ('<tool_call>{"name": "x", "arguments": []}</tool_call>', "must be an object"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "must be JSON"),
    ],
)
def test_unreadable_call_is_refused_with_a_reason(text: str, error: str) -> None:
    calls, said = parse_reply(text)
    assert calls == []
    assert error in said
