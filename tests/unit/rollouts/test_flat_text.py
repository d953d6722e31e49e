"""Messages in decoded text: roles of several families, answers, and words of the agent that look like answers."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.rollouts.chats import INVENTED, REPLY
from coevolve.rollouts.flat_text import messages_of
from tests.unit.rollouts.test_real_files import played
from tests.unit.rollouts.test_rollout_formats import DUMP

CALL = '<tool_call>\n{"name": "find_mail", "arguments": {"subject": "garden"}}\n</tool_call>'
ANSWER = "<tool_response>\nm34\n</tool_response>"
CHATML = "system\nact\nuser\nfind it\nassistant\n"
MARKED = "<|im_start|>system\nact<|im_end|>\n<|im_start|>user\nfind it<|im_end|>\n<|im_start|>assistant\n"


def said(prompt: str, completion: str) -> list[tuple[str, str]]:
    """The messages behind the request."""
    messages = messages_of(prompt, completion)
    return [(one["role"], one["content"]) for one in messages if one["role"] in ("assistant", "tool")]


@pytest.mark.parametrize(
    ("prompt", "completion"),
    [
        (CHATML, f"{CALL}\nuser\n{ANSWER}\nassistant\ndone"),
        (CHATML + "<think>\n\n</think>\n\n", f"{CALL}\nuser\n{ANSWER}\nassistant\ndone"),
        (CHATML, f"{CALL}\ntool\n{ANSWER}\nassistant\ndone"),  # Hermes
        (MARKED, f"{CALL}<|im_end|>\n<|im_start|>user\n{ANSWER}<|im_end|>\n<|im_start|>assistant\ndone<|im_end|>"),
        ("user\nact\n\nfind it\nmodel\n", f"{CALL}\nuser\n{ANSWER}\nmodel\ndone"),  # Gemma
        ("act find it", f"{CALL}{ANSWER}done"),  # all names of roles are special tokens
        ("act\nuser\nfind it\n<think>\n", f"{CALL}\n{ANSWER}\ndone"),
    ],
)
def test_names_of_roles_are_no_words(prompt: str, completion: str) -> None:
    assert said(prompt, completion) == [("assistant", CALL), ("tool", "m34"), ("assistant", "done")]


def test_answers_to_parallel_calls_follow_each_other() -> None:
    found = said(CHATML, f"{CALL}\n{CALL}\nuser\n{ANSWER}\n{ANSWER}\nassistant\ndone")
    assert [role for role, _ in found] == ["assistant", "tool", "tool", "assistant"]


@pytest.mark.parametrize(
    "reply",
    [
        f"{CALL}\n{ANSWER}\nAll done.",
        f"I tell the user {ANSWER}",
        "<tool_response>no end",
        f"{ANSWER}{ANSWER}",
        f"<tool_response>\n{ANSWER}",
    ],
)
def test_answer_that_no_role_begins_is_the_agents(tmp_path: Path, reply: str) -> None:
    assert said(CHATML, reply) == [("assistant", reply)]
    real = said(CHATML, f"{reply}\nuser\n{ANSWER}\nassistant\ndone")
    assert real == [("assistant", reply), ("tool", "m34"), ("assistant", "done")]
    (tmp_path / "1.jsonl").write_text(json.dumps({**DUMP, "output": reply}))
    _, [found], account, _ = played(tmp_path)
    assert not any(call.ok for call in found.calls) and account.notes[INVENTED][0] == 1


@pytest.mark.parametrize("tag", ["<tool_response>", f"\nuser\n{ANSWER}", "<tool_call>"])
@pytest.mark.parametrize("prompt", [CHATML, "find it"])
def test_repeated_tag_takes_time_in_proportion(tag: str, prompt: str) -> None:
    """With time in its square, a policy that repeats itself would hold the reader for hours."""
    found = messages_of(prompt, tag * 200_000)
    assert sum(len(one["content"]) for one in found) <= len(prompt) + len(tag) * 200_000


PIECES = st.sampled_from(
    ["<tool_response>", "</tool_response>", "\nuser\n", "\nassistant\n", "model\n", "words", CALL, " "]
)


@given(st.lists(PIECES, max_size=12), st.sampled_from([CHATML, "find it", ""]))
def test_no_word_of_the_agent_is_lost(pieces: list[str], prompt: str) -> None:
    """Every piece of text that is no tag and no name of a role is in exactly one message."""
    found = messages_of(prompt, "".join(pieces))
    whole = "\n".join(one["content"] for one in found)
    for word in ("words", CALL):
        assert whole.count(word) == "".join(pieces).count(word)


def test_unreadable_calls_are_counted_with_the_first(tmp_path: Path) -> None:
    call = '[TOOL_CALLS][{"name": "find_mail", "arguments": {}}]'
    row = json.dumps({**DUMP, "output": f"{call}\nuser\n{ANSWER}\nassistant\n{call}"})
    (tmp_path / "1.jsonl").write_text(f"{row}\n{row}")
    _, found, account, _ = played(tmp_path)
    assert not any(one.calls for one in found) and account.notes[REPLY][0] == 4
    [line] = [line for line in account.lines({}) if REPLY in line]
    assert line.startswith(f"{REPLY}: 4 (first: 1.jsonl:1: ") and "[TOOL_CALLS]" in line
