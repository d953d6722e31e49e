"""The last gate before training: bad rows are quarantined by name, and a bad file stops the pipeline."""

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.expectations import Suites
from coevolve.core.paths import Paths
from coevolve.core.task import Task, ToolCall
from coevolve.stages.validate.config import LIMITS, Validate
from coevolve.stages.validate.stage import rejected
from coevolve.stages.validate.validation import Validation, validate
from tests.unit.stages.train.small import WORLD

PANELS = {name: WORLD.tasks(name) for name in WORLD.panels}
HELD_OUT = {task.task_id for panel in PANELS.values() for task in panel}
CONFIG = Validate(max_turn_characters=400, max_calls=12)
GOOD_CALLS = [[ToolCall("add_event", {"title": "yoga", "day": "monday"}), ToolCall("complete_task")]]
GOOD: list[dict[str, Any]] = [json.loads(json.dumps(asdict(task))) for task in WORLD.tasks("seed")[:40]]


NEVER = {name: {"limit": -9.0 if limit.low_is_bad else 9.0, "critical": None} for name, limit in LIMITS.items()}


def judged_with(config: Validate, measured: dict[str, float | None]) -> Validation:
    return validate(GOOD[:3], WORLD, HELD_OUT, config, None, (), "seed", measured)


def judged(rows: list[Any], docs: Path | None = None) -> Validation:
    return validate(rows, WORLD, HELD_OUT, CONFIG, docs, (), "seed", {})


def row(task: Task) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(asdict(task)))
    return value


def decide(name: str, *lines: dict[str, Any]) -> None:
    Paths.reviews.mkdir(exist_ok=True)
    (Paths.reviews / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_rejected_task_is_quarantined() -> None:
    found = validate(GOOD, WORLD, HELD_OUT, CONFIG, None, {GOOD[1]["task_id"], "another"}, "seed", {})
    assert [(bad["row"], bad["expectations"]) for bad in found.quarantine] == [(1, ["nobody rejects it"])]
    assert len(found.tasks) == len(GOOD) - 1 and found.critical is None


def test_a_reviewers_latest_decision_wins_and_one_rejection_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rejected() == set(), "without the folder nobody rejects a task"
    decide(
        "ada",
        {"task_id": "a", "decision": "reject", "reason": "odd", "schema_version": 1},
        {"task_id": "b", "decision": "reject"},
        {"task_id": "a", "decision": "accept"},
    )
    decide("ben", {"task_id": "b", "decision": "accept", "reviewer": "ada"}, {"task_id": "c", "decision": "reject"})
    assert rejected() == {"b", "c"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"decision": "reject"}', "task_id: Field required"),
        ('{"task_id": "a", "decision": "reword", "turns": ["b"]}', "decision: Input should be 'accept' or 'reject'"),
    ],
)
def test_a_malformed_decision_names_its_file_and_line(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    decide("ada", {"task_id": "a", "decision": "accept"})
    with Path("reviews/ada.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(CoevolveError, match=f"^reviews/ada.jsonl:2: .*{message}"):
        rejected()


def changed(**fields: Any) -> dict[str, Any]:
    row = copy.deepcopy(GOOD[0])
    row.update(task_id="f" * 16)
    row.update(fields)
    return row


def test_good_rows_pass_and_bad_ones_are_quarantined_by_name(tmp_path: Path) -> None:
    bad = {
        "id is unique": GOOD[3],
        "follows the schema": {"task_id": "e" * 16, "environment": "miniworld"},
        "has an id": changed(task_id=None),
        "id is a content hash": changed(task_id="not a hash"),
        "is of this environment": changed(environment="bfcl"),
        "has a known schema version": changed(schema_version=7, task_id="d" * 16),
        "instruction length": changed(turns=["x" * 401], task_id="c" * 16),
        "reference length": changed(reference=[[{"name": "balance", "arguments": {}}] * 13], task_id="b" * 16),
        "knows every tool": changed(reference=[[{"name": "fly", "arguments": {}}]], task_id="a" * 16),
        "is in no panel": json.loads(json.dumps(asdict(PANELS["test"][0]))),
    }
    found = judged([*GOOD, *bad.values()], tmp_path / "docs")
    assert found.tasks == [*WORLD.tasks("seed")[:40]]
    assert [row["row"] for row in found.quarantine] == list(range(40, 40 + len(bad)))
    for name, row in zip(bad, found.quarantine, strict=True):
        assert name in row["expectations"]
    assert found.critical is None
    assert (tmp_path / "docs/index.html").exists()


def test_id_is_the_hash_of_its_own_content() -> None:
    copied = {**GOOD[0], "task_id": "deadbeef" * 2}
    borrowed = {**GOOD[1], "task_id": GOOD[2]["task_id"]}
    found = judged([borrowed, *GOOD, copied])
    assert [(bad["row"], bad["expectations"]) for bad in found.quarantine] == [
        (0, ["id is a content hash"]), (41, ["id is a content hash"]),
    ]  # fmt: skip
    assert found.tasks == [*WORLD.tasks("seed")[:40]], "the task whose id another row borrows stays"


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (GOOD[:3], "tasks"),
        ([row | {"tags": ["one"]} for row in GOOD], "largest_family"),
    ],
)  # fmt: skip
def test_flaw_of_the_whole_file_is_critical(rows: list[Any], name: str) -> None:
    critical = judged(rows).critical
    assert critical is not None
    assert critical.name == name and critical.state == "critical"


def test_file_may_be_as_one_sided_as_its_own_training_tasks() -> None:
    tasks = WORLD.tasks("seed")
    single = [row(task) for task in tasks if task.family == tasks[0].family][:20]
    assert judged(single).critical is None, "nobody can ask for balance if there is one family to start from"
    others = [row(task) for task in tasks if task.family != tasks[0].family]
    new = [Task.create("miniworld", "x", [f"do number {n}"], {"seed": n}, GOOD_CALLS, ["new"]) for n in range(60)]
    forged = [single[0] | {"turns": [f"forged {n}"]} for n in range(200)]
    for own in (single[:2], [single[0]] * 200, [single[0], *forged]):
        critical = judged([*own, *others[:18], *map(row, new)]).critical
        assert critical is not None, "copies and forged ids, which go to quarantine, allow nothing"
        assert critical.name == "largest_family"


def test_expectation_that_cannot_be_judged_is_an_error() -> None:
    wanted = {"breaks": ("ExpectColumnMeanToBeBetween", {"column": "words", "min_value": 0})}
    with pytest.raises(CoevolveError, match=r"'breaks' could not be judged: "):
        Suites(None).run("rows", [{"words": "no number"}], wanted)


def test_limits_warn_and_critical_limits_stop(tmp_path: Path) -> None:
    measured = LIMITS.keys() - {"tasks", "largest_family"}
    values = dict.fromkeys(measured, 0.4) | {
        "action_entropy": 0.3,
        "drift": 0.61,
        "regressions": None,
        "duplicate_tasks": 0.95,
    }
    found = validate(GOOD, WORLD, HELD_OUT, CONFIG, tmp_path / "docs", (), "seed", values)
    states = {indicator.name: indicator.state for indicator in found.indicators}
    assert set(states) == measured - {"regressions"} | {"tasks"}, "there is nothing to measure"
    assert states["action_entropy"] == states["generator_valid"] == "limit", "low is bad"
    assert states["zero_variance"] == states["duplicate_trajectories"] == "ok"
    assert states["drift"] == states["environment_failed"] == "critical"
    assert found.critical is not None and str(found.critical).startswith("duplicate_tasks 0.95 is above 0.9: share of")
    pages = [file.read_text(encoding="utf-8") for file in (tmp_path / "docs/validations").rglob("*.html")]
    assert any("drift" in page for page in pages) and any("in_panel" in page for page in pages)


@given(st.sampled_from(sorted(LIMITS)), st.floats(-2.0, 2.0), st.floats(-2.0, 2.0) | st.none())
@settings(max_examples=5)
def test_value_on_a_limit_is_within_it(name: str, limit: float, critical: float | None) -> None:
    config = Validate.model_validate({**NEVER, name: {"limit": limit, "critical": critical}})
    for value in (limit, limit if critical is None else critical):
        found = {one.name: one for one in judged_with(config, {name: value}).indicators}[name]
        low = LIMITS[name].low_is_bad
        past = [value < bound if low else value > bound for bound in (limit, critical) if bound is not None]
        assert found.state == ("critical" if any(past[1:]) else "limit" if past[0] else "ok")
        assert (found.value, found.limit, found.critical) == (value, limit, critical)


def test_data_docs_escape_hostile_texts(tmp_path: Path) -> None:
    payload = "<script>alert('{}')</script><img src=x onerror=alert(1)>"
    rows = [
        *GOOD,
        *(changed(**{key: payload.format(key)}) for key in GOOD[0]),
        changed(tags=[payload], turns=[payload], reference=[[{"name": payload, "arguments": {payload: payload}}]]),
    ]
    judged(rows, tmp_path / "docs")
    pages = [file.read_text(encoding="utf-8") for file in (tmp_path / "docs").rglob("*.html")]
    assert any("alert(" in page for page in pages), "they show it"
    assert not any("<script>alert(" in page or "<img src=x" in page for page in pages)
