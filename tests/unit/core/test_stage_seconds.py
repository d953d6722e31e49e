"""Stage durations are kept by experiment, and a damaged file stops nothing."""

from pathlib import Path

import pytest

from coevolve.core.stage_seconds import curve, note_seconds, note_step, seconds


def test_seconds_of_the_latest_run_are_kept_per_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    for name, took in (("a", 7.0), ("b", 3.0), ("a", 1.504)):
        monkeypatch.setenv("DVC_EXP_NAME", name)
        note_seconds("explore/1", took)
    assert seconds() == {"explore/1": 1.5}
    monkeypatch.setenv("DVC_EXP_NAME", "c")
    assert seconds() == {}
    assert seconds("b") == {"explore/1": 3.0}


def test_an_incomplete_line_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    note_seconds("explore/1", 2.5)
    with (tmp_path / "scratch/seconds.jsonl").open("a") as file:
        file.write('{"experi')
    assert seconds() == {"explore/1": 2.5}


def test_curve_is_that_of_the_last_run_also_if_it_continued_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    for step, loss in ((0, 3.0), (1, 2.0), (2, 1.0), (1, 2.5)):  # the last checkpoint was before step 1
        note_step("warm", step, {"loss": loss})
    assert curve("warm") == [(0, {"loss": 3.0}), (1, {"loss": 2.5})]
    monkeypatch.setenv("DVC_EXP_NAME", "other")
    assert curve("warm") == [] and curve("generate/0") == []
