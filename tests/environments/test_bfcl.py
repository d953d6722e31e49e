"""BFCL: our score equals the official checker's, and sessions touch neither each other nor the package's globals."""

import json
import os
from collections.abc import Iterator

import pytest

from coevolve.environments import make
from coevolve.errors import CoevolveError
from coevolve.records import Task, ToolCall
from coevolve.seeding import generator

try:
    WORLD = make("bfcl")
except CoevolveError:
    if os.environ.get("COEVOLVE_REQUIRE_BFCL"):
        raise
    pytest.skip("bfcl is not installed; run `coevolve env install bfcl`", allow_module_level=True)

TASKS = [task for split in ("seed", *WORLD.panels) for task in WORLD.tasks(split)]
Turns = list[list[ToolCall]]


def ours(task: Task, turns: Turns) -> bool:
    session = WORLD.open()
    session.reset(task)
    for turn in turns:
        for call in turn:
            session.step(call)
        session.say("")
    return session.score().success


def spelled(call: ToolCall) -> str:
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


def official(task: Task, turns: Turns, run: str) -> bool:
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    entry = {**task.world, "id": task.world["id"]}
    truth = [[spelled(call) for call in turn] for turn in task.reference]
    model = [[[spelled(call)] for call in turn] for turn in turns]
    found = multi_turn_checker(model, truth, entry, "multi_turn_base", run)
    for name in [name for name in vars(multi_turn_utils) if name.startswith(run)]:
        delattr(multi_turn_utils, name)
    return bool(found["valid"])


def variants(task: Task) -> Iterator[tuple[str, Turns]]:
    """The answer, and eleven ways to get it wrong (or not quite wrong)."""
    rng = generator("bfcl variants", task.task_id)
    places = [(t, c) for t, turn in enumerate(task.reference) for c in range(len(turn))]

    def copied() -> Turns:
        return [list(turn) for turn in task.reference]

    yield "truth", copied()
    yield "nothing", [[] for _ in task.reference]
    for _ in range(3):
        turns = copied()
        t, c = rng.choice(places)
        call = turns[t][c]
        if call.arguments:
            key = rng.choice(sorted(call.arguments))
            value = call.arguments[key]
            wrong = value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else "wrong"
            turns[t][c] = ToolCall(call.name, {**call.arguments, key: wrong})
            yield "corrupted", turns
    for _ in range(3):
        turns = copied()
        t, c = rng.choice(places)
        del turns[t][c]
        yield "dropped", turns
    for _ in range(2):
        turns = copied()
        t, c = rng.choice(places)
        turns[t].insert(c, turns[t][c])
        yield "duplicated", turns
    for _ in range(2):
        turns = copied()
        t, c = rng.choice(places)
        other = rng.choice(TASKS)
        extra = [
            call
            for turn in other.reference
            for call in turn
            if other.world["involved_classes"] == task.world["involved_classes"]
        ]
        turns[t].insert(c, rng.choice(extra) if extra else rng.choice([x for turn in task.reference for x in turn]))
        yield "extra", turns


def test_our_score_equals_the_official_checkers() -> None:
    compared: dict[str, list[bool]] = {}
    disagreements = []
    for number, task in enumerate(TASKS):
        for row, (kind, turns) in enumerate(variants(task)):
            mine, theirs = ours(task, turns), official(task, turns, f"run{number}x{row}")
            compared.setdefault(kind, []).append(theirs)
            if mine != theirs:
                disagreements.append((task.world["id"], kind, mine, theirs))
    assert not disagreements
    assert sum(map(len, compared.values())) >= 2000
    assert all(compared["truth"])
    assert not any(compared["nothing"])
    assert any(compared["dropped"]) or not all(compared["dropped"])
    assert any(not valid for valid in compared["corrupted"])


def test_a_scenario_is_in_one_split() -> None:
    splits = {split: {task.world["id"] for task in WORLD.tasks(split)} for split in ("seed", *WORLD.panels)}
    assert {split: len(ids) for split, ids in splits.items()} == {"seed": 100, "validation": 50, "test": 50}
    assert len(set.union(*splits.values())) == 200


def test_model_text_is_never_evaluated(tmp_path: object) -> None:
    task = next(task for task in TASKS if "GorillaFileSystem" in task.world["involved_classes"])
    session = WORLD.open()
    session.reset(task)
    before = session.digest()
    for name in ("__class__", "_load_scenario", "__init__", "eval", "ls.__globals__", "os.system"):
        assert session.step(ToolCall(name, {})).error
    turn = session.step(ToolCall("mkdir", {"dir_name": "__import__('os').system('true')"}))
    assert turn.error or "__import__" in json.dumps(session._instances["GorillaFileSystem"].root.contents, default=str)
    session.reset(task)
    assert session.digest() == before


def test_more_than_twenty_calls_in_a_turn_fail() -> None:
    task = TASKS[0]
    session = WORLD.open()
    session.reset(task)
    call = task.reference[0][0]
    turns = [session.step(call) for _ in range(21)]
    assert turns[-1].done
    assert session.score().checks["steps"] is False


def test_schemas_are_json_schemas() -> None:
    types = set()

    def walk(schema: dict[str, object]) -> None:
        types.add(schema["type"])
        for inner in (schema.get("properties") or {}).values():  # type: ignore[attr-defined]
            walk(inner)

    for schema in WORLD.tools():
        walk(schema["function"]["parameters"])
    assert types <= {"object", "string", "number", "integer", "boolean", "array"}


def test_missing_installation_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.environments.bfcl.find_spec", lambda name: None)
    with pytest.raises(CoevolveError, match="coevolve env install bfcl"):
        make("bfcl")
