"""What a stage says when it ends badly, one line, and what it notes when it ends well."""

import subprocess
import sys
import time
from pathlib import Path

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
    for name, pause in (("a", 0.0), ("b", 0.3), ("a", 0.1)):
        monkeypatch.setenv("DVC_EXP_NAME", name)
        timed("/1", lambda pause=pause: time.sleep(pause))  # type: ignore[misc]
    assert 0.1 <= seconds()["explore/1"] < 0.3
    monkeypatch.setenv("DVC_EXP_NAME", "c")
    assert seconds() == {}
    with pytest.raises(ValueError, match="x"):  # a stage that failed has no time worth knowing
        timed("/1", lambda: int("x"))
    assert seconds() == {}
