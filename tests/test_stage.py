"""What a stage says when it ends badly: one line."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import torch; torch.empty(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("bytearray(10**15)", "error: out of memory; in params.yaml lower train.micro_batch"),
        ("from coevolve.errors import CoevolveError; raise CoevolveError('so')", "error: so"),
        ("raise KeyboardInterrupt", "interrupted; run the same command again to go on"),
    ],
)
def test_one_line(code: str, said: str) -> None:
    program = f"from coevolve.stage import guard\ndef main():\n    {code}\nguard(main)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == (130 if "Keyboard" in code else 1)
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1
