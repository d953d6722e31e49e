"""The seconds that stages took are kept by experiment, and a damaged note stops nothing."""

from pathlib import Path

import pytest

from coevolve.core.stage_seconds import note_seconds, seconds


def test_seconds_of_the_latest_run_are_kept_by_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    for name, took in (("a", 7.0), ("b", 3.0), ("a", 1.504)):
        monkeypatch.setenv("DVC_EXP_NAME", name)
        note_seconds("explore/1", took)
    assert seconds() == {"explore/1": 1.5}
    monkeypatch.setenv("DVC_EXP_NAME", "c")
    assert seconds() == {}
    assert seconds("b") == {"explore/1": 3.0}


def test_a_torn_line_is_ignored_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("DVC_EXP_NAME", "a")
    file = tmp_path / "scratch/seconds.jsonl"
    assert seconds() == {}
    file.parent.mkdir()
    whole = b'{"experiment": "a", "stage": "explore/1", "seconds": 2.5}\n'
    torn = [
        b'{"experiment": "a", "sta\n',
        b"\xff\xfe\n",
        b"[]\n",
        b"{}\n",
        b"null\n",
        b"[" * 100_000 + b"\n",
        b'{"experi',
    ]
    file.write_bytes(b"".join([*torn[:3], whole, *torn[3:]]))
    assert seconds() == {"explore/1": 2.5}
    file.unlink()
    file.mkdir()
    assert seconds() == {}
    note_seconds("explore/1", 1.0)  # it cannot be noted, and the stage has done its work
