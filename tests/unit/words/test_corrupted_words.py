"""Corrupted instructions are refused for any claims of a candidate, and sound ones are accepted.

The classes are those of `benchmarks/corrupted_words.py`, which measures them on more tasks.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Candidate, Verdict
from coevolve.core.seeding import rng_for
from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make
from coevolve.stages.verify.judge import Judge
from tests.unit.environments.helpdesk import Helpdesk
from tests.unit.words.test_words_match import made_in

Corruption = Callable[[str, random.Random], str]
RANDOM = ("zzz", "banana", "qwvx", "violin", "umbrella")
WORLDS = {"helpdesk": Helpdesk()}  # learns its phrases from its training tasks
HIDDEN = {
    "miniworld": ToolCall("add_contact", {"name": "Zoe", "city": "Oslo"}),
    "helpdesk": ToolCall("add_note", {"text": "call back at noon"}),
    "shop": ToolCall("query", {"sql": "UPDATE products SET stock = stock + 7 WHERE name = 'rake'"}),
    "library": ToolCall("query", {"sql": "UPDATE books SET copies = copies + 7 WHERE id = 1"}),
}
SAID: dict[str, Corruption] = {
    "as before": lambda words, rng: words,
    "word appended": lambda words, rng: f"{words} {rng.choice(RANDOM)}",
    "word replaced": lambda words, rng: _inside(words, rng.choice(RANDOM), rng, gone=1),
    "do not, before": lambda words, rng: f"{rng.choice(('do not', 'Don’t', 'please do not', 'never'))} {words}",
    "do not, after": lambda words, rng: f"{words}{rng.choice((', do not', ' do not', ', never'))}",
    "disguised negation": lambda words, rng: f"d\u043e n\u043et {words}",
    "negation inside": lambda words, rng: _inside(words, rng.choice(("not", "never", "do not", "unless")), rng),
}


def _inside(words: str, new: str, rng: random.Random, gone: int = 0) -> str:
    parts = words.split()
    at = rng.randrange(1, len(parts))
    return " ".join([*parts[:at], new, *parts[at + gone :]])


def said(candidate: Candidate, words: str, calls: Sequence[ToolCall] | None = None) -> Candidate:
    old = candidate.task
    world = old.world if calls is None or "domain" not in old.world else {**old.world, "writable": True}
    reference = old.reference if calls is None else [list(calls)]
    task = Task.create(old.environment, old.split, [words], world, reference, old.tags, old.provenance)
    return replace(candidate, candidate_id=task.task_id, task=task)


def everything(candidate: Candidate) -> Candidate:
    return replace(candidate, asks=[list(position) for position in candidate.task.positions])


@cache
def judge(name: str) -> Judge:
    own = WORLDS.get(name)
    return Judge(name, words="values" if own else "language", world=own)


def verdict(candidate: Candidate) -> Verdict:
    return judge(candidate.task.environment).judge(json.dumps(asdict(candidate))).verdict


def sound_in(name: str) -> list[Candidate]:
    """The environment's tasks, and for miniworld synthesized tasks that pass every gate."""
    world = WORLDS.get(name) or make(name)
    own = [Candidate(task.task_id, task, []) for task in world.tasks("seed")[:24]]
    made = made_in(name, 24, 20) if name == "miniworld" else []
    return [candidate for candidate in [*own, *made] if verdict(candidate).accepted]


@pytest.fixture(scope="module", params=["miniworld", "helpdesk"])
def sound(request: pytest.FixtureRequest) -> list[Candidate]:
    return sound_in(request.param)


@pytest.mark.parametrize("kind", SAID)
def test_corrupted_instructions_are_refused_and_sound_ones_are_not(sound: list[Candidate], kind: str) -> None:
    assert len(sound) >= 24
    accepted = []
    for candidate in sound:
        words = SAID[kind](candidate.task.turns[0], rng_for("corrupt", kind, candidate.task.task_id))
        if verdict(said(candidate, words)).accepted:
            accepted.append(words)
    if kind == "as before":
        assert len(accepted) == len(sound)
    else:
        assert len(accepted) <= 0.05 * len(sound), accepted


@pytest.mark.parametrize("claims", ["as they were", "a lookup", "everything"])
def test_no_claim_lets_the_instruction_of_another_task_pass(sound: list[Candidate], claims: str) -> None:
    passed = []
    for candidate, other in zip(sound, [*sound[7:], *sound[:7]], strict=True):
        if [call.arguments for call in candidate.task.calls] == [call.arguments for call in other.task.calls]:
            continue
        swapped = said(candidate, other.task.turns[0])
        claimed = {
            "as they were": swapped,
            "a lookup": replace(swapped, asks=[*swapped.asks, [0, 0]]),
            "everything": everything(swapped),
        }[claims]
        passed += [swapped.task.turns[0]] if verdict(claimed).accepted else []
    assert len(passed) <= 0.05 * len(sound), passed


def test_unmentioned_change_fails_whatever_is_claimed(sound: list[Candidate]) -> None:
    for candidate in sound:
        hidden = HIDDEN[candidate.task.world.get("domain", candidate.task.environment)]
        tickets = [call.arguments["ticket_id"] for call in candidate.task.calls if "ticket_id" in call.arguments]
        hidden = ToolCall(hidden.name, {**hidden.arguments, "ticket_id": tickets[0]}) if tickets else hidden
        *calls, last = candidate.task.reference[0]
        calls += [hidden, last] if last.name in ("complete_task", "submit") else [last, hidden]
        made = said(candidate, candidate.task.turns[0], calls)
        assert not verdict(made).accepted and not verdict(everything(made)).accepted, (made.task.turns, calls)


@pytest.mark.parametrize("other", ["hello", "now undo all of it"])
@pytest.mark.parametrize("first", [True, False])
def test_turn_that_no_agent_hears_is_refused(sound: list[Candidate], other: str, first: bool) -> None:
    """These sessions end at the first message: an agent hears the first turn only, and makes no call after it."""
    for candidate in sound:
        (words,), (calls,) = candidate.task.turns, candidate.task.reference
        turns, reference = ([other, words], [[], calls]) if first else ([words, other], [calls, []])
        old = candidate.task
        task = Task.create(old.environment, old.split, turns, old.world, reference)
        found = verdict(Candidate(task.task_id, task, [])).gates[-1]
        assert (found.name, found.passed) == ("executable", False)
        assert found.reason == "the episode ends before the reference and its turns do"


@given(st.data())
def test_claim_only_adds_duties(data: st.DataObject) -> None:
    """A candidate that fails without claims fails with any claims."""
    tasks = list(make("miniworld").tasks("hard")[:30])
    task, other = data.draw(st.sampled_from(tasks)), data.draw(st.sampled_from(tasks))
    bare = said(Candidate(task.task_id, task, []), data.draw(st.sampled_from([*other.turns, *task.turns])))
    positions = [list(position) for position in [*task.positions, (0, 99), (7, 0)]]
    left_out = data.draw(st.lists(st.sampled_from(positions), max_size=2))
    asks = [position for position in positions if position not in left_out]
    if not verdict(bare).accepted:
        assert not verdict(replace(bare, asks=asks)).accepted
