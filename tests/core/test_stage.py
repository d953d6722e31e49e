"""What a stage says when it ends badly, one line, and what it notes when it ends well."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from coevolve.core.stage import seconds, timed


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch; torch.empty(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("bytearray(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("from coevolve.core.errors import CoevolveError; raise CoevolveError('so')", "error: so"),
        ("raise KeyboardInterrupt", "interrupted; run the same command again to go on"),
    ],
)
def test_one_line(code: str, said: str) -> None:
    program = f"from coevolve.core.stage import guard\ndef main():\n    {code}\nguard(main)"
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
    with pytest.raises(ValueError, match="x"):  # a stage that failed has no time worth knowing
        timed("/1", lambda: int("x"))
    assert seconds() == {}
