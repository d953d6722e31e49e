"""The table (DuckDB) against plain Python over the same rows, and its errors for bad files."""

import json
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import coevolve
from coevolve.core.errors import CoevolveError
from coevolve.core.records import Attempt, Signal
from coevolve.rollouts.find_weaknesses import evidence
from coevolve.stages.signals import table
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.extract import KINDS, extract
from coevolve.stages.signals.rare import absence
from coevolve.stages.signals.table import open_table

rows_strategy = st.lists(
    st.builds(
        dict,
        task_id=st.sampled_from(["t1", "t2", "t3"]),
        step=st.integers(0, 4),
        iteration=st.integers(1, 2),
        score=st.sampled_from([0.0, 0.1, 0.49, 0.5, 1.0]),
        calls=st.lists(st.builds(dict, name=st.sampled_from("abc"), ok=st.booleans()), max_size=5),
        stop_reason=st.sampled_from(["done", "max_turns", "environment_failed"]),
    ),
    max_size=40,
)


CALL = pa.struct([("name", pa.string()), ("ok", pa.bool_())])
TYPES = {"task_id": pa.string(), "step": pa.int64(), "iteration": pa.int64(), "score": pa.float64()}
TYPES |= {"calls": pa.list_(CALL), "stop_reason": pa.string(), "trajectory_id": pa.string()}


def write(path: Path, rows: list[dict[str, Any]], types: dict[str, Any] | None = TYPES) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema=types and pa.schema(types)), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def oracle(
    rows: list[dict[str, Any]], history: list[dict[str, Any]], window: int, theta: float
) -> set[tuple[Any, ...]]:
    """(kind, task or pattern, last firing) by the definitions only."""
    rows = [row for row in rows if row["stop_reason"] != "environment_failed"]
    groups: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for row in rows:
        groups[row["task_id"], row["iteration"], row["step"]].append(row["score"])
    found: set[tuple[Any, ...]] = set()
    for task in {row["task_id"] for row in rows}:
        visits = [(i, s, sum(v) / len(v), True) for (name, i, s), v in groups.items() if name == task]
        visits += [(h["iteration"], h["step"], h["score"], False) for h in history if h["task_id"] == task]
        visits.sort()
        for now, (iteration, step, score, current) in enumerate(visits):
            before = visits[max(0, now - window + 1) : now]
            if current and score < 0.5 and any(visit[2] >= 0.5 for visit in before):
                found = {f for f in found if f[:2] != ("forgetting", task)} | {("forgetting", task, iteration, step)}
            if current and len({s >= 0.5 for s in groups[task, iteration, step]}) == 2:
                found = {f for f in found if f[:2] != ("boundary", task)} | {("boundary", task, iteration, step)}
    valid = [[call["name"] for call in row["calls"] if call["ok"]] for row in rows]
    for order in (1, 2):
        every = [tuple(v[i : i + order]) for v in valid for i in range(len(v) - order + 1)]
        found |= {("rare", p, every.count(p), len(every)) for p in every if every.count(p) * 100 < theta * len(every)}
    return found


def summary(signal: Signal) -> tuple[Any, ...]:
    if signal.kind == "rare":
        return ("rare", tuple(signal.pattern or ()), signal.evidence["count"], signal.evidence["total"])
    return (signal.kind, signal.task_id, *signal.evidence["steps"][-1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows_strategy, st.integers(2, 5), st.sampled_from([5.0, 30.0, 100.0]))
def test_signals_equal_those_of_the_definitions(
    tmp_path: Path, rows: list[dict[str, Any]], window: int, theta: float
) -> None:
    rows = [{**row, "trajectory_id": f"x{number:03d}"} for number, row in enumerate(rows)]
    path = write(tmp_path / "trajectories.parquet", rows)
    config = Signals(window=window, rare_threshold=theta, kinds=list(KINDS))
    history = [{"task_id": f"t{n}", "iteration": 0, "step": s, "score": 0.25 * n} for n in (1, 2) for s in (0, 1)]
    with open_table(path, [Attempt(**attempt) for attempt in history]) as table:
        signals = list(extract(table, 2, config))
        again = list(extract(table, 2, config))
    if rows:
        lines = write(tmp_path / "trajectories.jsonl", rows)
        options: Any = {"window": window, "rare_threshold": theta, "kinds": list(KINDS)}
        last = max(row["iteration"] for row in rows)
        with open_table(path, [Attempt(**attempt) for attempt in history]) as table:
            assert coevolve.signals(lines, history=history, **options) == list(extract(table, last, config))
    assert {summary(signal) for signal in signals} == oracle(rows, history, window, theta)
    assert len({signal.signal_id for signal in signals}) == len(signals)
    assert [asdict(signal) for signal in again] == [asdict(signal) for signal in signals]
    by_id = {row["trajectory_id"]: row for row in rows}
    for signal in signals:
        assert 0 < len(signal.trajectory_ids) <= 8
        assert 0.0 <= signal.strength <= 1.0
        assert signal.task_id is None or {by_id[i]["task_id"] for i in signal.trajectory_ids} == {signal.task_id}


def test_reason_for_no_rare_pattern_names_the_smallest_share(tmp_path: Path) -> None:
    calls = [{"name": name, "ok": True} for name in "aab"]
    rows = [{"task_id": "a", "step": step, "score": 1.0, "calls": calls} for step in (0, 1)]
    with open_table(write(tmp_path / "t.parquet", rows, None)) as table:
        said = "the smallest share of the 4 patterns is 33.3 %, and signals.rare_threshold is 2 %"
        assert absence(table, 2.0) == said  # a, b, aa, ab
    with open_table(write(tmp_path / "t.parquet", [{"task_id": "a", "step": 0, "score": 1.0}])) as table:
        assert absence(table, 2.0) == "the agent made no valid call"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"task_id": "a", "step": 0, "sc', "not JSON"),
        ('{"task_id": "a", "step": 1, "score": "1"}', "score: Input should be a valid number"),
        ('{"task_id": "a", "step": 0, "score": 1, "schema_version": 7}', "schema_version 7 is unknown"),
        ("[1]", "expected a JSON object, found int"),
        ('{"task_id": "a", "step": 0.5, "score": 1}', "step: Input should be a valid integer"),
        ('{"task_id": "a", "step": 0, "score": NaN}', "score: Input should be a finite number"),
    ],
)
def test_bad_line_is_left_out_with_its_address_and_the_others_count(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.jsonl"
    good = '{"task_id": "a", "step": 0, "score": 1}'
    path.write_text(f"{good}\n{text}\n{good}\n")
    with evidence(path) as found:
        [skipped] = found.account.skipped
        assert found.table.summary()["rollouts"] == 2
    assert skipped["where"].startswith("t.jsonl:2") and skipped["reason"].startswith(message)
    path.write_text(f"{text}\n")
    with pytest.raises(CoevolveError) as caught:
        coevolve.signals(path)
    assert "\n" not in str(caught.value) and "t.jsonl" in str(caught.value)


def test_bad_parquet_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for columns, said in (
        ({"step": [1]}, "missing column score"),
        ({"step": [1], "score": [0.5], "calls": ["x"]}, "column calls"),
        ({"step": [1], "score": [float("nan")]}, "not finite"),
    ):
        pq.write_table(pa.table({"task_id": ["a"], **columns}), path)
        with pytest.raises(CoevolveError, match=said), open_table(path):
            pass
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CoevolveError, match="not a whole Parquet file"), open_table(path):
        pass


def test_history_with_the_same_attempt_is_refused(tmp_path: Path) -> None:
    rows = write(tmp_path / "t.parquet", [{"task_id": "a", "step": 0, "score": 1.0}])
    with (
        open_table(rows, [Attempt("a", 0, 0, 1.0)]) as table,
        pytest.raises(CoevolveError, match="so do the trajectories"),
    ):
        list(table.visits())


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_split_files_give_the_same_signals(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of episodes may be cut in two; in several files, by a glob or in a folder it is one visit. So it is where not all
    tasks are grouped at once.
    """
    rows = [
        {
            "task_id": f"t{number % 3}", "step": number % 12 // 3, "iteration": 0, "score": float(number % 5 == 0),
            "calls": [{"name": name, "ok": True} for name in "abcab"[number % 4 :]], "trajectory_id": f"{number:04d}",
            "stop_reason": "done",
        }
        for number in range(90)
    ]  # fmt: skip
    whole = write(tmp_path / f"whole.{ending}", rows)
    (tmp_path / "parts/1").mkdir(parents=True)
    parts = [
        write(tmp_path / "parts/1" / f"a.{ending}", rows[40:]), write(tmp_path / "parts" / f"b.{ending}", rows[:40])
    ]  # fmt: skip
    options: Any = {"window": 3, "rare_threshold": 30.0, "kinds": list(KINDS)}
    expected = coevolve.signals(whole, **options)
    assert {signal.kind for signal in expected} >= {"boundary", "rare"}
    for source in (parts, [*parts, parts[0]], str(tmp_path / f"parts/**/*.{ending}"), tmp_path / "parts"):
        assert coevolve.signals(source, **options) == expected, "each file once"
    for rows_at_once in (1, 31):
        monkeypatch.setattr(table, "PART", rows_at_once)
        assert coevolve.signals(whole, **options) == expected


def test_missing_files_are_named(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", [{"task_id": "a", "step": 0, "score": 1.0}])
    wrong: list[tuple[Any, str]] = [
        (str(tmp_path / "*.json"), "no such file; name the rollouts"),
        ([one, "s3://bucket/*.jsonl"], r"s3://bucket/\*.jsonl: no such file; copy it from its store first"),
    ]
    for source, said in wrong:
        with pytest.raises(CoevolveError, match=said):
            coevolve.signals(source)


def test_broken_table_is_left_out_and_the_others_count(tmp_path: Path) -> None:
    good = write(tmp_path / "a.parquet", [{"task_id": "a", "step": 0, "score": 1.0}])
    write(tmp_path / "b.parquet", [{"task_id": "a", "step": 0, "score": None}])
    (tmp_path / "c.parquet").write_bytes(good.read_bytes()[:-9])
    write(tmp_path / "d.jsonl", [{"task_id": "a", "step": 0, "score": 1.0}])
    with evidence(tmp_path) as found:
        assert found.table.summary()["rollouts"] == 2
        assert sorted(one["where"] for one in found.account.skipped) == ["b.parquet", "c.parquet"]


ROWS = [{"task_id": "a", "step": step, "score": float(step % 2), "iteration": 0} for step in range(6)]
TWO = ["boundary", "forgetting"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_file_with_two_spellings_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    pair = [{**ROWS[0], "score": 0.0}, {**ROWS[0], "score": 1.0}]
    path = write(tmp_path / f"rows.{ending}", pair, None)
    expected = coevolve.signals(path)
    assert expected
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert coevolve.signals([path.name, f"./{path.name}", f"link/*.{ending}", path]) == expected


@pytest.mark.parametrize("key", ["step", "iteration"])
def test_fractional_step_or_iteration_is_refused(tmp_path: Path, key: str) -> None:
    rows = [{**row, key: float(row[key])} for row in ROWS]
    rows[0][key] = 0.5
    with pytest.raises(CoevolveError, match=rf"rows\.parquet: {key}: expected bigint, found 0\.5; fix the "):
        coevolve.signals(write(tmp_path / "rows.parquet", rows, None))


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_whole_steps_stored_as_floats_are_read(tmp_path: Path, ending: str) -> None:
    expected = coevolve.signals(write(tmp_path / f"rows.{ending}", ROWS, None), kinds=TWO)
    floats = [{**row, "step": float(row["step"]), "iteration": 0.0} for row in ROWS]
    assert coevolve.signals(write(tmp_path / f"rows.{ending}", floats, None), kinds=TWO) == expected != []
