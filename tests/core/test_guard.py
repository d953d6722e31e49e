"""What a stage says when it ends badly, one line, and what it notes when it ends well."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from coevolve.core.stage_seconds import seconds, timed


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch; torch.empty(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("bytearray(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("from coevolve.core.errors import CoevolveError; raise CoevolveError('so')", "error: so"),
        ("open('/nowhere/x', 'w')", "error: /nowhere/x: No such file or directory; mend it or its permissions"),
        ("import os; os.listdir('/etc/hostname')", "error: /etc/hostname: Not a directory; mend it"),
        ("raise OSError(28, 'No space left on device', '/x')", "error: /x cannot be written: the disk is full"),
        (
            "raise RuntimeError('PytorchStreamWriter failed writing file data/0')",
            "error: a file cannot be written: the disk",
        ),
        (
            "raise RuntimeError('[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0')",
            "error: a file cannot",
        ),
        ("raise BrokenPipeError", "error: BrokenPipeError; mend it"),
        ("raise KeyboardInterrupt", "interrupted; run the same command again to go on"),
    ],
)
def test_one_line(code: str, said: str) -> None:
    program = f"from coevolve.core.guard import guard\ndef main():\n    {code}\nguard(main)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == (130 if "Keyboard" in code else 1)
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1


def test_seconds_of_the_latest_run_are_kept_by_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["pipelines/explore.py", "1"])
    clock = iter([0.0, 7.0, 10.0, 13.0, 20.0, 21.5, 30.0])
    monkeypatch.setattr("coevolve.core.stage.time", SimpleNamespace(monotonic=lambda: next(clock)))
    for name in "aba":
        monkeypatch.setenv("DVC_EXP_NAME", name)
        timed("/1", lambda: None)
    assert seconds() == {"explore/1": 1.5}
    monkeypatch.setenv("DVC_EXP_NAME", "c")
    assert seconds() == {}
    assert seconds("b") == {"explore/1": 3.0}
    with pytest.raises(ValueError, match="x"):  # a stage that failed has no time worth knowing
        timed("/1", lambda: int("x"))
    assert seconds() == {}


def test_a_torn_line_is_no_note_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    timed("/1", lambda: None)  # it cannot be noted, and the stage has done its work


WRITES = {
    "jsonl": "io.write_jsonl(out / 'x', ({'a': 'x' * 99} for _ in range(999)))",
    "json": "io.write_json(out / 'x', {'a': 'x' * 99999})",
    "text": "io.write_text(out / 'x', 'x' * 99999)",
    "parquet": "trajectories.write_trajectories(out / 'x', [random_trajectory(n) for n in range(99)])",
}
SETTING = """
import os, random, resource, sys
from pathlib import Path
from coevolve.core import io, trajectories
from coevolve.core.records import StopReason, Trajectory
from coevolve.core.guard import guard
import pyarrow.parquet
out = Path(sys.argv[1])
def random_trajectory(n):
    text = random.randbytes(2000).hex()
    return Trajectory(text, text, 0, 0, 0, 0, [{"a": text}], [], 0.0, StopReason.DONE)
"""
LACKS = {
    "full": ("resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))", "the disk is full"),
    "read-only": ("os.chmod(out, 0o555); os.geteuid() or os.setuid(65534)", "Permission denied"),
    "no folder": ("out = out / 'old'", "File exists"),
}


@pytest.mark.parametrize("lack", LACKS)
@pytest.mark.parametrize("kind", WRITES)
def test_what_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path, kind: str, lack: str) -> None:
    (tmp_path / "old").write_text("kept")
    tmp_path.chmod(0o755)
    doing, said = LACKS[lack]
    program = f"{SETTING}{doing}\nguard(lambda: {WRITES[kind]})"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    tmp_path.chmod(0o755)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert said in done.stderr and str(tmp_path) in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "kept"
