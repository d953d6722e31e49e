"""A stage or command that fails prints one line."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
from coevolve.core.progress import bar


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch; torch.empty(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("bytearray(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("from coevolve.core.errors import CoevolveError; raise CoevolveError('so')", "error: so"),
        ("open('/nowhere/x', 'w')", "error: /nowhere/x: No such file or directory; fix it or its permissions"),
        ("raise OSError(28, 'No space left on device', '/x')", "error: /x cannot be written: the disk is full"),
        (
            "raise RuntimeError('PytorchStreamWriter failed writing file data/0')",
            "error: a file cannot be written: the disk is full",
        ),
        (
            "raise RuntimeError('[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0')",
            "error: a file cannot be written: the disk is full",
        ),
        (
            """raise RuntimeError('IO Error: Could not write file "/tmp/it is/t.wal": No space left on device')""",
            "error: /tmp/it is/t.wal cannot be written: the disk is full",
        ),
        ("raise OSError('AF_UNIX path too long')", "error: TMPDIR is too long for the sockets of processes: /"),
        (
            "import shutil; raise shutil.Error([('a', 'b', 'No space left: a -> b')])",
            "error: a file cannot be written: the disk is full",
        ),
        ("raise BrokenPipeError", "error: BrokenPipeError; fix it"),
        ("raise KeyboardInterrupt", "interrupted; run the same command again to continue"),
    ],
)
def test_failure_is_one_line_on_stderr(code: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert ended(lambda: exec(code)) == (130 if "Keyboard" in code else 1)
    shown = capfd.readouterr().err
    assert shown.startswith(said) and shown.count("\n") == 1


def ended(main: Callable[[], None]) -> object:
    """The exit code of a process that runs ``main``."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as left:
            guard(main)
    finally:
        signal.signal(signal.SIGTERM, handler)
    return left.value.code


def test_open_progress_bar_ends_before_the_error(capfd: pytest.CaptureFixture[str]) -> None:
    opened = []

    def main() -> None:
        opened.append(bar(2, "train 0", "steps"))
        raise CoevolveError("so")

    assert ended(main) == 1
    assert capfd.readouterr().err.splitlines()[-1] == "error: so"


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
from coevolve.core.trajectories import StopReason, Trajectory
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


@pytest.mark.parametrize(
    ("kind", "lack"), [("jsonl", "full"), ("parquet", "full"), ("json", "read-only"), ("text", "no folder")]
)
def test_failed_write_is_a_one_line_error_and_leaves_nothing(tmp_path: Path, kind: str, lack: str) -> None:
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
