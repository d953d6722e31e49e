"""TRL prompts with examples: only the completion is the agent's, and the last request is the task's."""

from pathlib import Path
from typing import Any

from coevolve.core.task import CallOutcome
from tests.unit.rollouts.test_real_files import KNOWN, played
from tests.unit.rollouts.test_rollout_formats import read, trl


def call(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": "{}"}}


EXAMPLE = [
    {"role": "user", "content": "an example", "tool_calls": None},
    {"role": "assistant", "content": "", "tool_calls": [call("shown"), call("shown_too")]},
    {"role": "tool", "content": "ok", "tool_calls": None},
    {"role": "assistant", "content": "done", "tool_calls": None},
]


def request(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "tool_calls": None}


def prompted(folder: Path, *texts: str) -> Path:
    """A file whose prompts hold the example and then one of ``texts``. Its agent makes a call in each of two turns."""
    reply = [
        {"role": "assistant", "content": "", "tool_calls": [call("mine")]},
        {"role": "tool", "content": "found", "tool_calls": None},
        request("and now?"),
        {"role": "assistant", "content": "", "tool_calls": [call("later")]},
    ]
    prompts = [[*EXAMPLE, request(text)] for text in texts]
    return trl(folder, prompt=prompts, completion=[reply] * len(texts), reward=[1.0] * len(texts))


def test_calls_in_examples_do_not_count_as_the_agents(tmp_path: Path) -> None:
    found, _ = read(prompted(tmp_path, "x", "y"), "trl")
    assert found[0].calls == [CallOutcome("mine", {}, True, "found", 0), CallOutcome("later", {}, False, "", 1)]
    assert [message["content"] for message in found[0].messages][:1] == ["an example"], "the messages stay whole"


def test_prompt_of_another_type_is_skipped_with_a_reason(tmp_path: Path) -> None:
    _, account = read(trl(tmp_path, prompt=[1, 2], reward=[0.0, 1.0]), "trl")
    assert [skipped["reason"] for skipped in account.skipped] == [
        "prompt and completion: expected texts or lists of messages"
    ] * 2


def test_last_request_of_the_prompt_finds_the_known_task(tmp_path: Path) -> None:
    _, found, account, _ = played(prompted(tmp_path, KNOWN[0].turns[0], KNOWN[1].turns[0]))
    assert [trajectory.task_id for trajectory in found] == [KNOWN[0].task_id, KNOWN[1].task_id]
    assert not account.skipped
