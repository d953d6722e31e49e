"""`import coevolve`: the Python API outside any project."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import coevolve
from coevolve.core.io import write_jsonl
from coevolve.environments.registry import REGISTERED, make
from tests import ROOT
from tests.unit.stages.verify.test_candidates import Bank, Banks

ROWS: list[dict[str, Any]] = [
    {
        "task_id": "a",
        "step": step,
        "score": score,
        "trajectory_id": f"{step}-{score}",
        "calls": [{"name": "x"}, {"name": "y", "ok": False}],
    }
    for step, score in ((0, 1.0), (0, 0.0), (1, 0.0), (1, 0.0))
]
PAGE = ROOT / "docs/python.md"
TASKS = list(make("miniworld").tasks("seed")[:3])


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_signals_are_the_same_from_files_and_from_records(outside: Path) -> None:
    write_jsonl(outside / "t.jsonl", ROWS)
    history = [{"task_id": "a", "iteration": 0, "step": 0, "score": 1.0}]
    write_jsonl(outside / "h.jsonl", history)
    now = [{**row, "iteration": 1} for row in ROWS]
    write_jsonl(outside / "now.jsonl", now)
    found = coevolve.signals("t.jsonl", window=3)
    assert [signal.kind for signal in found] == ["forgetting", "boundary"]
    assert found == coevolve.signals(ROWS, window=3) == coevolve.signals([outside / "t.jsonl"], window=3)
    assert coevolve.signals("now.jsonl", history="h.jsonl") == coevolve.signals(now, history=history)
    assert coevolve.signals([]) == []


def test_unsolved_is_off_by_default() -> None:
    rows = [{"task_id": "a", "step": 0, "score": 0.0}] * 8
    assert coevolve.signals(rows) == []
    assert [signal.kind for signal in coevolve.signals(rows, kinds=["unsolved"])] == ["unsolved"]


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ([*ROWS, {"task_id": "a", "step": 0}], {}, "trajectories[4]: score: Field required"),
        (ROWS, {"history": [{"task_id": "a", "step": 0, "score": 1.0}]}, "history[0]: iteration: Field required"),
        (ROWS, {"window": 1}, "window: Input should be greater than or equal to 2"),
        (ROWS, {"kinds": ["boundry"]}, "did you mean 'boundary'"),
    ],
)
def test_mistake_in_signals_is_a_one_line_error(rows: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(coevolve.CoevolveError) as caught:
        coevolve.signals(rows, **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_verdicts_are_the_same_from_files_and_from_records(outside: Path) -> None:
    write_jsonl(outside / "c.jsonl", TASKS)
    write_jsonl(outside / "known.jsonl", TASKS[:1])
    by_file = coevolve.verify("miniworld", "c.jsonl", known="known.jsonl", panels={"mine": [outside / "known.jsonl"]})
    assert by_file == coevolve.verify("miniworld", TASKS, known=TASKS[:1], panels={"mine": TASKS[:1]})
    assert [verdict.accepted for verdict, _ in by_file] == [False, True, True]
    assert [task for _, task in by_file] == TASKS
    lines = [json.dumps(asdict(task)) for task in TASKS]
    assert coevolve.verify("miniworld", [*lines[1:], "garbage"])[-1].task is None


def test_handwritten_task_needs_no_ids() -> None:
    row = asdict(TASKS[0])
    del row["task_id"]
    for candidate in (row, {"task": row, "asks": []}):
        [(verdict, task)] = coevolve.verify("miniworld", [candidate])
        assert verdict.accepted and task == TASKS[0]


@pytest.mark.parametrize(
    ("environment", "candidates", "options", "words"),
    [
        ("minworld", [], {}, "'minworld' is unknown"),
        ("miniworld", [{"turns": {1, 2}}], {}, "candidates[0]: Object of type set is not JSON"),
        ("miniworld", [], {"words": "all"}, "words: expected one of none, language, values"),
        ("miniworld", "nowhere.jsonl", {}, "nowhere.jsonl: no such file"),
    ],
)
def test_mistake_in_verify_is_a_one_line_error(
    environment: str, candidates: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(coevolve.CoevolveError) as caught:
        coevolve.verify(environment, candidates, **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_invalid_environment_is_not_registered() -> None:
    class NoName(Banks):
        name = "0.5*a+0.5*b"

    class Taken(Banks):
        name = "miniworld"

    for maker, words in (
        (Bank, "is not an environment"),
        (NoName, "is no environment's name"),
        (Taken, "another name"),
    ):
        with pytest.raises(coevolve.CoevolveError, match=words):
            coevolve.register(maker)  # type: ignore[type-var]
    assert not REGISTERED


def test_code_on_the_page_runs(outside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.environments.registry.REGISTERED", {})
    write_jsonl(outside / "tasks.jsonl", TASKS)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4 and "read_run" in blocks[-1], "tests/integration/pipeline/test_export.py runs the last one"
    for block in blocks[:-1]:
        exec(block, {"__name__": "page"})
