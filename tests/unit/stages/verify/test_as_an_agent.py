"""Verification plays a reference as an agent plays, and judges the words that the agent hears."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.records import Gate
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.verify.judge import Judge, Judged
from coevolve.stages.verify.library import Library
from tests.unit.environments.courier import Courier, task
from tests.unit.environments.lamps import Lamps
from tests.unit.environments.parcels import Parcels
from tests.unit.stages.train.small import WORLD
from tests.waiting import PATIENCE

WORLDS: list[Environment] = [WORLD, Parcels(), Lamps("english"), Courier()]


def judged(world: Environment, one: Task, words: str = "language") -> Judged:
    return Judge(world.name, words=words, world=world).judge(json.dumps(asdict(one)))


def refusal(world: Environment, one: Task, words: str = "language") -> Gate | None:
    return next((gate for gate in judged(world, one, words).verdict.gates if gate.passed is False), None)


def played(world: Environment, one: Task) -> float:
    limits = Limits(200, 10**9, 10**9, PATIENCE)
    (episode,) = rollout(ReferencePolicy(world, parallel=True), world, [RolloutRequest(one, 0)], limits)
    return episode.trajectory.score


@st.composite
def split_otherwise(draw: st.DrawFn, world: Environment) -> Task:
    """A task with its calls, and perhaps further ones after them, in other turns, of which some are empty."""
    tasks = world.tasks("seed")
    one = tasks[draw(st.integers(0, min(len(tasks), 24) - 1))]
    calls = [*one.calls, *draw(st.lists(st.sampled_from(one.calls), max_size=1))]
    ends = sorted(draw(st.lists(st.integers(0, len(calls)), max_size=2)))
    turns = [calls[start:end] for start, end in zip([0, *ends], [*ends, len(calls)], strict=True)]
    words = [draw(st.sampled_from(["hello", one.turns[0], "now undo all of it"])) for _ in turns]
    spoken = draw(st.integers(0, len(turns) - 1))
    words[spoken] = one.turns[0]
    return Task.create(world.name, "synthesized", words, one.world, turns, one.tags)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_an_agent_that_replays_an_accepted_reference_succeeds(world: Environment, data: st.DataObject) -> None:
    one = data.draw(split_otherwise(world))
    if judged(world, one).verdict.accepted:
        assert played(world, one) == 1.0


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_tasks_as_they_are_are_accepted(world: Environment) -> None:
    assert any(judged(world, one).verdict.accepted for one in world.tasks("seed")[:24])


def test_the_last_message_counts_as_the_agents_does() -> None:
    world = Courier()
    one = task(["send 2 boxes, numbers 10 and 90"], [10, 90], strict=True)
    assert played(world, one) == 0.0
    assert refusal(world, one) == Gate("reference_passes", False, "fails silent")


def test_an_episode_that_goes_on_is_refused() -> None:
    """The file has fewer turns than the session, or its calls are in a turn after the session's last."""
    more = task(["send 2 boxes, numbers 10 and 90"], [10, 90], say=["send 2 boxes, numbers 10 and 90", "thanks"])
    assert refusal(Courier(), more) == Gate("executable", False, "the episode goes on after the last turn")
    fewer = task(["send 2 boxes, numbers 10 and 90", "thanks"], [10, 90], say=["send 2 boxes, numbers 10 and 90"])
    ends = "the episode ends before the reference and its turns do"
    assert refusal(Courier(), fewer) == Gate("executable", False, ends)


def test_words_are_those_of_the_session() -> None:
    world, right, wrong = Courier(), "send 2 boxes, numbers 10 and 90", "send 2 boxes, numbers 40 and 90"
    assert refusal(world, task([wrong], [10, 90], say=[right]), "values") is None
    said = refusal(world, task([right], [10, 90], say=[wrong]), "values")
    assert said is not None and said.name == "words_match"


def test_a_panel_is_known_by_the_words_of_the_session() -> None:
    world, words = Courier(), "send 2 boxes, numbers 10 and 90, which are blue"
    library = Library([], {"validation": [task([words], [10, 90])]}, 0.9)
    one = task(["an order"], [90, 11], say=[words])
    effect = judged(world, one, "none").effect
    assert effect is not None
    overlaps = {gate.name: gate.passed for gate in library.gates(one, effect, world)}
    assert overlaps["panel_overlap"] is False


def test_a_call_that_no_agent_can_make_is_refused() -> None:
    world = Courier()
    long = Task.create("courier", "seed", ["send"], {}, [[ToolCall("send", {"boxes": [10**9] * 20_000, "count": 1})]])
    assert played(world, long) == 0.0
    said = refusal(world, long)
    assert said is not None and "a call is longer than 100000 characters" in said.reason
