"""Exported data in other tools: `datasets` opens it, TRL trains on it, chat templates reproduce the agent's text."""

import json
from typing import Any

import pytest

from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.registry import make
from coevolve.lineage.finished_run import conversation, supervised
from coevolve.policies.agent_prompt import Renderer
from coevolve.rollout import Limits
from coevolve.rollouts.chats import chat, sound
from coevolve.stages.schema import load
from coevolve.stages.train.reference_tokens import offered, replayed, tokens
from tests import POLICY, ROOT

WORLD = make("miniworld")
TASKS = list(WORLD.tasks("seed")[:24])
TINY = POLICY


@pytest.fixture(scope="module")
def episodes() -> list[Trajectory]:
    return list(replayed(WORLD, TASKS, Limits.of(load(ROOT / "params.yaml").policy)).values())


@pytest.fixture(scope="module")
def rows(episodes: list[Trajectory]) -> list[dict[str, Any]]:
    return list(supervised(episodes, offered(WORLD, TASKS)))


def test_chat_template_reproduces_the_agents_text(episodes: list[Trajectory], rows: list[dict[str, Any]]) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(TINY)
    renderer = Renderer(tokenizer, {})
    assert len(rows) == len(episodes) == len(TASKS)
    for one, row in zip(episodes, rows, strict=True):
        whole = tokens(renderer, row["tools"], one)
        text = tokenizer.apply_chat_template(row["messages"], tools=row["tools"], tokenize=False)
        assert tokenizer.decode(whole.prompt + whole.completion) == text


def test_malformed_calls_stay_text() -> None:
    said = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "<tool_call>{broken</tool_call>"},
        {"role": "tool", "content": "a call must be JSON"},
        {"role": "assistant", "content": 'first <tool_call>{"name":"pay","arguments":{"x":1}}</tool_call>'},
    ]
    found = conversation(said)
    assert found[1] == {"role": "assistant", "content": "<tool_call>{broken</tool_call>"}
    call = {"type": "function", "function": {"name": "pay", "arguments": {"x": 1}}}
    assert found[3] == {"role": "assistant", "content": "first", "tool_calls": [call]}


def test_episode_is_exported_once_and_ends_with_the_agents_message(episodes: list[Trajectory]) -> None:
    heard = Trajectory(
        "x", TASKS[0].task_id, 0, 0, 0, 0, [{"role": "user", "content": "a"}], [], 0.0, StopReason.TIMEOUT
    )
    found = list(supervised([*episodes, *episodes, heard], offered(WORLD, TASKS)))
    assert len(found) == len(episodes)
    assert all(row["messages"][-1]["role"] == "assistant" for row in found)


def test_exported_episodes_are_read_back(episodes: list[Trajectory], rows: list[dict[str, Any]]) -> None:
    for one, row in zip(episodes, rows, strict=True):
        messages, calls, unread = chat(sound(json.loads(json.dumps(row["messages"]))))
        assert row["task_id"] == one.task_id and not unread
        assert [(call.name, call.arguments, call.turn) for call in calls] == [
            (call.name, call.arguments, call.turn) for call in one.calls
        ]
        # the last call ends the episode, and its answer is no part of what is learned from
        assert [call.observation for call in calls[:-1]] == [call.observation for call in one.calls[:-1]]
        assert [message["content"] for message in messages] == [
            message["content"] for message in one.messages[: len(messages)]
        ]
