"""The gate `words_match`: instructions that ask for something else than their reference does."""

import json
from contextlib import closing
from dataclasses import asdict
from functools import cache

import pytest

from coevolve.core.hashing import content_hash
from coevolve.core.records import Candidate, Gate, Verdict
from coevolve.core.task import Task, ToolCall
from coevolve.environments.chains import replay
from coevolve.environments.knowledge import learn
from coevolve.environments.registry import make
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.judge import unchecked, verify
from coevolve.stages.verify.library import Library
from coevolve.words.words_match import words_match
from tests.unit.environments.helpdesk import Helpdesk
from tests.unit.stages.train.small import PARAMS, WORLD

DONE = ToolCall("complete_task", {})


world_of = cache(make)


def outcome(candidate: Candidate, values: bool = False) -> Gate:
    world = world_of(candidate.task.environment)
    with closing(world.open()) as session:
        return words_match(world, session, candidate, replay(session, candidate.task), values)


def reason(candidate: Candidate, values: bool = False) -> str:
    """The reason why the gate fails, or an empty text."""
    gate = outcome(candidate, values)
    return gate.reason if gate.passed is False else ""


def spoken(text: str, calls: list[ToolCall], asks: list[list[int]], seed: int = 5) -> Candidate:
    task = Task.create("miniworld", "synthesized", [text], {"seed": seed, "variant": "plain"}, [calls])
    return Candidate(content_hash([task.task_id, "c"]), task, asks)


def party(text: str) -> Candidate:
    return spoken(text, [ToolCall("add_event", {"title": "party", "day": "monday"}), DONE], [[0, 0]])


def made_in(name: str, seeds: int = 32, explorations: int = 60) -> list[Candidate]:
    """Candidates of the scripted explorer and synthesizer."""
    world = make(name)
    tasks, config = world.tasks("seed")[:seeds], PARAMS.explore
    wanted = requests(world, tasks, [], [], config.model_copy(update={"explorations": explorations}), 0, 0)
    found = explore(ScriptedExplorer(world, learn(world, tasks, []), config), wanted, lambda count: None)
    return synthesize(ScriptedSynthesizer(world, tasks, 0), found, 60, lambda count: None)


@pytest.fixture(scope="module")
def made() -> list[Candidate]:
    return made_in("miniworld")


def test_synthesized_instructions_pass(made: list[Candidate]) -> None:
    """Also if the candidate does not say what it asks."""
    assert len(made) > 40
    asking_nothing = [Candidate("x", one.task, []) for one in made]
    assert [found for one in [*made, *asking_nothing] if (found := reason(one))] == []


@pytest.mark.parametrize("values", [False, True])
def test_free_words_must_name_the_values_and_no_other(values: bool) -> None:
    right, wrong = "i'd like a party in my planner for monday", "i'd like a party in my planner for tuesday"
    assert not reason(party(right), values)
    assert "add_event.day is 'monday', which its words do not say" in reason(party(wrong), values)
    assert "names 3, which no call uses" in reason(party(f"{right} at 3"), values)
    assert "decline_event is not called" in reason(party(f"{right} , turn down the party"), values)
    assert "balance is not called" in reason(party(f"{right} , tell me the balance of the wallet"), values)


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("Please plan a party for Monday.", True),
        ("I'd love to host a party this monday, note that somewhere.", None),
        ("Please plan a party for Tuesday.", False),
        ("cancel the party!", False),
    ],
)
def test_phrases_in_a_models_own_spelling_are_checked_and_other_words_are_not(text: str, passed: bool | None) -> None:
    gate = outcome(party(text))
    assert gate.passed is passed and bool(gate.reason) == (passed is not True)


def test_values_stay_unchecked_if_words_and_calls_have_none() -> None:
    world = Helpdesk()
    known = next(task for task in world.tasks("seed") if task.tools == ["escalate"])

    def gate(words: str, calls: list[ToolCall]) -> Gate:
        task = Task.create("helpdesk", "x", [words], known.world, [calls])
        with closing(world.open()) as session:
            return words_match(world, session, Candidate("c", task, []), replay(session, task), values=True)

    idle = gate("who is there for me", [ToolCall("list_agents")])
    assert idle.passed is None
    assert idle.reason == "its words and the calls that they must name have no names or numbers to compare"
    assert gate(known.turns[0], known.calls).passed is True
    longer = gate(f"{known.turns[0]}, like a 3", known.calls)
    assert longer.passed is False and f"the words for its reference are '{known.turns[0]}'" in longer.reason
    assert unchecked([Verdict("c", "t", True, [idle])]) == {"words_match": 1}


@pytest.mark.parametrize("text", ["add party on monday", "add party on monday and cancel the yoga"])
@pytest.mark.parametrize("asks", [[], [[0, 0]], [[0, 0], [0, 1]]])
def test_answer_that_no_lookup_found_is_not_asked_for(text: str, asks: list[list[int]]) -> None:
    calls = [ToolCall("add_event", {"title": "party", "day": "monday"}), ToolCall("complete_task", {"answer": "zzz"})]
    assert reason(spoken(text, calls, asks))


def test_call_that_enables_another_need_not_be_mentioned() -> None:
    """The instruction may omit unlocking. If a candidate claims it, other words are not in the language."""
    locked = next(
        seed
        for seed in range(100)
        if not replay(WORLD.open(), spoken("x", [ToolCall("top_up", {"amount": 7})], [], seed).task).chain[0].ok
    )
    calls = [ToolCall("unlock", {"app": "wallet"}), ToolCall("top_up", {"amount": 7}), DONE]
    both, short = "unlock wallet then add 7 to the wallet", "add 7 to the wallet"
    for text in (both, short):
        assert outcome(spoken(text, calls, [], locked)).passed is True
    assert outcome(spoken(both, calls, [[0, 0], [0, 1]], locked)).passed is True
    assert outcome(spoken(short, calls, [[0, 0], [0, 1]], locked)).passed is None


def test_shifted_variant_is_read_by_the_same_phrases() -> None:
    calls = [ToolCall("create_event", {"title": "party", "weekday": "monday"}), DONE]
    for text, passed in (("plan party for monday", True), ("plan party for sunday", False)):
        task = Task.create("miniworld", "x", [text], {"seed": 5, "variant": "shifted"}, [calls])
        assert outcome(Candidate("x", task, [])).passed is passed


def test_gate_can_be_disabled() -> None:
    line = json.dumps(asdict(party("add party on tuesday")))
    gates = {}
    for words in ("none", "language"):
        ((verdict, _),) = verify("miniworld", [line], Library([], {}, 0.9), words=words)
        gates[words] = next(gate for gate in verdict.gates if gate.name == "words_match")
        assert verdict.accepted is (words == "none")
    assert gates["none"].passed is None and gates["language"].passed is False
