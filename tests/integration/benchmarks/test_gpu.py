"""benchmarks/gpu.py in its small form, on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "benchmarks/gpu.py"


def test_small_cases_are_measured(tmp_path: Path) -> None:
    """Adapters in bfloat16, whose rounding must not end training, and all weights."""
    cases, out = ("smoke-bf16-share", "smoke-full-share"), tmp_path / "cases.jsonl"
    command = [sys.executable, str(SCRIPT), "--cases", *cases, "--steps", "1", "--reply", "8", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    measured = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["case"] for one in measured] == list(cases)
    for one in measured:
        assert one["sampled_rate"] > 0 and one["trained_rate"] > 0
        assert f"| {one['case']} | {one['rollout_seconds']:.3g} |" in done.stdout
