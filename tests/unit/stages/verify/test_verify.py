"""Every gate with a candidate that fails only this gate, and candidates that no gate can judge."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest

from coevolve.core.hashing import content_hash
from coevolve.core.records import Candidate, Verdict
from coevolve.core.task import Task, ToolCall
from coevolve.endpoint.spending import Meter
from coevolve.stages.verify.gates import GATES
from coevolve.stages.verify.judge import Judge, Judged, summary, unchecked, verify
from coevolve.stages.verify.library import Library
from tests.unit.stages.train.small import WORLD

PANELS = {name: WORLD.tasks(name) for name in WORLD.panels}


def candidate(text: str, calls: list[ToolCall], asks: list[list[int]], seed: int = 5) -> Candidate:
    task = Task.create("miniworld", "synthesized", [text], {"seed": seed, "variant": "plain"}, [calls])
    return Candidate(content_hash([task.task_id, "c"]), task, asks)


def line(one: Candidate) -> str:
    return json.dumps(asdict(one))


def world(seed: int) -> dict[str, Any]:
    session = WORLD.open()
    session.reset(Task.create("miniworld", "x", ["x"], {"seed": seed}, [[]]))
    return session._state  # type: ignore[attr-defined,no-any-return]


def unlocked(app: str, locked: bool = False) -> int:
    return next(seed for seed in range(100) if world(seed)["session"][app]["locked"] is locked)


ADD = ToolCall("add_event", {"title": "yoga party", "day": "monday"})
DONE = ToolCall("complete_task", {})
GOOD = candidate("put a yoga party on monday into my calendar", [ADD, DONE], [[0, 0]])


def verdict(lines: list[str], known: list[Task] | None = None, words: str = "language") -> list[Verdict]:
    return [one for one, _ in verify("miniworld", lines, Library(known or [], PANELS, 0.9), words=words)]


def failed(one: Verdict) -> list[tuple[str, str]]:
    return [(gate.name, gate.reason) for gate in one.gates if gate.passed is False]


def test_good_candidate_passes_every_gate() -> None:
    (found,) = verdict([line(candidate("put a yoga party into the calendar on monday", [ADD, DONE], [[0, 0]]))])
    assert found.accepted
    assert [(gate.name, gate.passed) for gate in found.gates] == [(name, True) for name in GATES]
    assert found.unchecked == []


def test_gate_that_cannot_check_a_candidate_is_counted() -> None:
    """The good candidate in free words is accepted, and its verdict must not claim that its words were checked."""
    found = verdict([line(GOOD), line(candidate("x y", [ToolCall("fly", {})], []))])
    assert [one.accepted for one in found] == [True, False]
    (gate,) = found[0].unchecked
    assert gate.name == "words_match" and gate.passed is None and "language" in gate.reason
    assert found[1].unchecked == []  # gates that it never reached are not the news
    assert unchecked(found) == {"words_match": 1}
    figures = summary(0, [Judged(one) for one in found], Meter(None)).figures
    assert figures["not checked by words_match"] == 1 and figures["rejected by executable"] == 1


def _contact(seed: int) -> str:
    return next(iter(world(seed)["contacts"]))


def _unasked() -> Candidate:
    block = ToolCall("block_contact", {"contact_id": _contact(5)})
    return candidate("put a yoga party on monday into my calendar", [ADD, block, DONE], [[0, 0]])


def _cancelled() -> Candidate:
    mail = next(iter(world(5)["mail"]))
    calls = [ToolCall("delete_mail", {"mail_id": mail}), ToolCall("archive_mail", {"mail_id": mail}), DONE]
    return candidate("throw the mail away and archive it", calls, [[0, 0], [0, 1]])


def _vacuous() -> Candidate:
    seed = unlocked("wallet")
    calls = [ToolCall("lock", {"app": "wallet"}), ToolCall("unlock", {"app": "wallet"}), DONE]
    return candidate("lock the wallet and unlock it", calls, [[0, 0], [0, 1]], seed)


@pytest.mark.parametrize(
    ("make_it", "gate", "reason"),
    [
        (lambda: candidate("x y", [ToolCall("fly", {}), DONE], [[0, 0]]), "executable", "unknown tool fly"),
        (lambda: candidate("x y", [ToolCall("pay", {"contact_id": "c"}), DONE], [[0, 0]]), "executable", "refused"),
        (lambda: candidate("x y", [DONE, ADD], [[0, 1]]), "executable", "ends before"),
        (lambda: candidate("add a yoga party", [ADD], [[0, 0]]), "reference_passes", "completed"),
        (lambda: candidate("say that you are done", [DONE], [[0, 0]]), "wrong_variant_fails", "no wrong variant"),
        (_vacuous, "nothing_fails", "complete_task alone"),
        (_cancelled, "needed", "passes without call 0"),
        (_unasked, "collateral", "block_contact"),
        (lambda: candidate("add yoga party on friday", [ADD, DONE], [[0, 0]]), "words_match", "monday"),
    ],
)
def test_each_gate_states_its_reason(make_it: Callable[[], Candidate], gate: str, reason: str) -> None:
    (found,) = verdict([line(make_it())])
    assert [name for name, _ in failed(found)] == [gate]
    assert reason in failed(found)[0][1]
    assert not found.accepted


def test_preconditions_need_not_be_asked_for() -> None:
    seed = unlocked("wallet", locked=True)
    calls = [ToolCall("unlock", {"app": "wallet"}), ToolCall("top_up", {"amount": 7}), DONE]
    (found,) = verdict([line(candidate("let the wallet hold 7 more", calls, [[0, 1]], seed))])
    assert found.accepted, failed(found)


def test_duplicates_near_duplicates_and_panel_tasks_are_refused() -> None:
    again = replace(GOOD, candidate_id="again")
    reworded = candidate("i would like a yoga party this monday", [ADD, DONE], [[0, 0]])
    close = candidate("put a yoga party on monday into my calendar", [ADD, DONE], [[0, 0]], seed=6)
    panel = WORLD.tasks("test")[0]
    overlap = candidate(panel.turns[0], [ADD, DONE], [[0, 0]], seed=7)
    found = verdict([line(one) for one in (GOOD, again, reworded, close, overlap)], words="none")
    assert [one.accepted for one in found] == [True, False, False, False, False]
    assert [failed(one)[0][0] for one in found[1:]] == ["duplicate", "duplicate", "near_duplicate", "panel_overlap"]
    assert failed(found[1]) == [("duplicate", "the same as an accepted task")]
    assert failed(verdict([line(GOOD)], [GOOD.task])[0]) == [("duplicate", "the same as a known task")]


def test_bare_tasks_are_judged_except_for_their_asks() -> None:
    (found,) = verdict([json.dumps(asdict(GOOD.task))])
    assert found.accepted
    assert {gate.name: gate.passed for gate in found.gates}["collateral"] is None


def _changed(**changes: Any) -> str:
    value = json.loads(line(GOOD))
    value["task"].update(changes)
    return json.dumps(value)


GARBAGE = [
    json.dumps({"candidate_id": "x" * 10_000_000}),
    _changed(environment="bfcl"),
    _changed(turns=[" "]),
    line(candidate("x", [ADD] * 65, [[0, 0]])),
    line(candidate("x", [ToolCall("find_mail", {"subject": {"$ne": None}}), DONE], [[0, 0]])),
    line(replace(GOOD, task=replace(GOOD.task, world={"seed": "x"}))),
]


@pytest.mark.parametrize("bad", range(len(GARBAGE)))
def test_garbage_is_rejected_and_never_raises(bad: int) -> None:
    found = Judge("miniworld").judge(GARBAGE[bad]).verdict
    assert not found.accepted
    assert failed(found)[0][1]


def test_ablation_of_verification_asks_the_environment_nothing() -> None:
    broken = candidate("do what nobody can", [ToolCall("no_such_tool")], [[0, 0]])
    lines = [line(GOOD), line(broken), "not JSON", line(GOOD)]
    found = [one for one, _ in verify("miniworld", lines, Library([], PANELS, 0.9), enabled=False)]
    assert [one.accepted for one in found] == [True, True, False, False]  # the last is the first again
    assert [one.accepted for one in verdict(lines)] == [True, False, False, False]
    asked = {gate.name: gate.passed for gate in found[0].gates}
    assert asked["readable"] is True and asked["reference_passes"] is None and asked["duplicate"] is True
