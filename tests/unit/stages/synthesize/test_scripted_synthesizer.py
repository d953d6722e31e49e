"""Chains become tasks: instructions hide lookup results, references are minimal, wordings vary."""

import json
import re
from typing import Any

import pytest

from coevolve.core.records import Candidate, Exploration
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.knowledge import learn
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.gates import environment_gates
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from tests.unit.environments.quiz import Quiz
from tests.unit.stages.train.small import PARAMS, WORLD

TASKS = WORLD.tasks("seed")[:64]
CONFIG = PARAMS.explore.model_copy(update={"explorations": 480, "tries": 6})


@pytest.fixture(scope="module")
def candidates() -> list[Candidate]:
    wanted = requests(WORLD, TASKS, [], [], CONFIG, 0, 0)
    found = explore(ScriptedExplorer(WORLD, learn(WORLD, TASKS, []), CONFIG), wanted, lambda count: None)
    return synthesize(ScriptedSynthesizer(WORLD, TASKS, 0), found, 300, lambda count: None)


def skeleton(text: str) -> str:
    values = sorted(Miniworld.values(), key=len, reverse=True)
    return re.sub(r"\d+", "<n>", re.sub(rf"\b({'|'.join(values)})\b", "<v>", text))


def test_three_hundred_tasks_have_two_hundred_skeletons(candidates: list[Candidate]) -> None:
    assert len(candidates) == 300
    assert len({skeleton(candidate.task.turns[0]) for candidate in candidates}) >= 200


def test_instruction_never_reveals_a_lookup_result(candidates: list[Candidate]) -> None:
    for candidate in candidates:
        text = candidate.task.turns[0].split()
        ids = [v for c in candidate.task.reference[0] for k, v in c.arguments.items() if k.endswith("_id")]
        assert not set(ids) & set(text)
        answer = candidate.task.reference[0][-1].arguments.get("answer")
        if answer is not None and answer.isdigit():
            assert candidate.asks[-1] == [0, len(candidate.task.reference[0]) - 1]


def synthesized(*calls: ToolCall) -> list[Candidate]:
    """The tasks that come of an exploration of these calls in the world of the first task."""
    session = WORLD.open()
    task = TASKS[0]
    session.reset(task)
    made = [CallOutcome(call.name, call.arguments, True, session.step(call).content) for call in calls]
    explored = Exploration("e", "miniworld", 0, ["s"], task.task_id, task.world, "rare", [], [], made, "test")
    return synthesize(ScriptedSynthesizer(WORLD, TASKS, 0), [explored], 5, lambda count: None)


def test_unneeded_calls_are_left_out() -> None:
    subject = next(c.arguments["subject"] for c in TASKS[0].reference[0] if "subject" in c.arguments)
    session = WORLD.open()
    session.reset(TASKS[0])
    mail = json.loads(session.step(ToolCall("find_mail", {"subject": subject})).content)[0]["id"]
    (found,) = synthesized(
        ToolCall("find_event", {"title": "yoga"}),
        ToolCall("find_mail", {"subject": subject}),
        ToolCall("find_item", {"name": "lamp"}),
        ToolCall("report_mail", {"mail_id": mail}),
    )
    assert [call.name for call in found.task.reference[0]] == ["find_mail", "report_mail", "complete_task"]
    assert found.asks == [[0, 1]]
    assert subject in found.task.turns[0]
    assert mail not in found.task.turns[0]


def test_name_found_by_a_lookup_is_described_by_its_field() -> None:
    mails = json.loads(json.dumps(_state(TASKS[0])["mail"]))
    subject, sender = next(
        (mail["subject"], mail["from"])
        for mail in mails.values()
        if sum(c["name"] == mail["from"] for c in _state(TASKS[0])["contacts"].values()) == 1
    )
    contact = next(key for key, c in _state(TASKS[0])["contacts"].items() if c["name"] == sender)
    calls = [
        ToolCall("find_mail", {"subject": subject}),
        ToolCall("find_contact", {"name": sender}),
        ToolCall("block_contact", {"contact_id": contact}),
    ]
    (found,) = synthesized(*calls)
    assert [call.name for call in found.task.reference[0]] == [*(call.name for call in calls), "complete_task"]
    assert sender not in found.task.turns[0].split()
    assert re.search(f"(sender of|whoever wrote|whoever sent) the .*{subject}", found.task.turns[0])


def _state(task: Task) -> dict[str, Any]:
    session = WORLD.open()
    session.reset(task)
    return session._state  # type: ignore[attr-defined,no-any-return]


def test_constructed_task_equals_the_environments() -> None:
    quiz = Quiz()
    tasks = quiz.tasks("seed")
    wanted = requests(quiz, tasks, [], [], CONFIG.model_copy(update={"explorations": 12}), 0, 0)
    found = explore(ScriptedExplorer(quiz, learn(quiz, tasks), CONFIG), wanted, lambda count: None)
    made = synthesize(ScriptedSynthesizer(quiz, tasks, 0), found, 100, lambda count: None)
    assert len(made) == len(found) == 12
    for candidate, exploration in zip(made, found, strict=True):
        task = quiz.construct(exploration.goals[0], exploration.world["seed"])
        assert (candidate.task.turns, candidate.task.reference) == (task.turns, task.reference)
        assert candidate.task.family == task.tags[0]
        assert candidate.task.provenance and candidate.task.provenance.exploration_id == exploration.exploration_id
        gates = {gate.name: gate.passed for gate in environment_gates(quiz, candidate)}
        assert {name for name, passed in gates.items() if not passed} <= {"collateral", "words_match"}
        assert False not in gates.values()  # a quiz has no phrases, so that nothing can be said of its words
