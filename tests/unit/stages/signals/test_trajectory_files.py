"""The files that `coevolve signals` reads: each is read once, and steps are whole numbers."""

import json
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coevolve import signals
from coevolve.core.errors import CoevolveError

ROWS = [{"task_id": "a", "step": step, "score": float(step % 2), "iteration": 0} for step in range(6)]
KINDS = ["boundary", "forgetting"]


def write(folder: Path, ending: str, rows: list[dict[str, Any]]) -> Path:
    path = folder / f"rows.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_file_with_two_spellings_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    pair = [{**ROWS[0], "score": 0.0}, {**ROWS[0], "score": 1.0}]
    path = write(tmp_path, ending, pair)
    expected = signals(path)
    assert expected
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert signals([path.name, f"./{path.name}", f"link/*.{ending}", path]) == expected


@pytest.mark.parametrize("key", ["step", "iteration"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_fractional_step_or_iteration_is_refused(tmp_path: Path, ending: str, key: str) -> None:
    rows = [{**row, key: float(row[key])} for row in ROWS]
    rows[0][key] = 0.5
    address = ":1" if ending == "jsonl" else ""
    with pytest.raises(CoevolveError, match=rf"rows\.{ending}{address}: {key}: expected bigint, found 0\.5; fix the "):
        signals(write(tmp_path, ending, rows))


def test_fractional_step_in_an_object_store_or_history_is_refused(tmp_path: Path) -> None:
    bad = write(tmp_path, "jsonl", [{**ROWS[0], "step": 1.25}])
    fsspec.filesystem("memory").pipe("/bucket/fractions/a.jsonl", bad.read_bytes())
    with pytest.raises(CoevolveError, match=r"a\.jsonl: step: expected bigint, found 1\.25; fix the row"):
        signals("memory://bucket/fractions/*.jsonl")
    good = write(tmp_path, "parquet", ROWS)
    with pytest.raises(CoevolveError, match=r"rows\.jsonl:1: step: expected bigint, found 1\.25; fix the line"):
        signals(good, history=bad)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_whole_steps_stored_as_floats_are_read(tmp_path: Path, ending: str) -> None:
    expected = signals(write(tmp_path, ending, ROWS), kinds=KINDS)
    floats = [{**row, "step": float(row["step"]), "iteration": 0.0} for row in ROWS]
    assert signals(write(tmp_path, ending, floats), kinds=KINDS) == expected != []
