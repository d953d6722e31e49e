"""Wall time of `dvc repro` by stage, in a clone: what share is not training, exploration or evaluation.

`python benchmarks/pipeline.py` takes as long as `make repro`.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ("train", "explore", "evaluate", "evaluate_base")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "-q", str(ROOT), folder], check=True)
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "dvc", "repro"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        seconds: Counter[str] = Counter()
        stage, since = "start", began
        assert process.stdout is not None
        for line in process.stdout:
            now = time.perf_counter()
            # between stages DVC hashes and locks: that time is its own
            name = line.split("'")[1].split("@")[0] if line.startswith("Running stage '") else None
            if name or line.startswith("Updating lock file"):
                seconds[stage] += now - since
                stage, since = name or "dvc", now
        seconds[stage] += time.perf_counter() - since
        total = time.perf_counter() - began
        if process.wait() != 0:
            raise SystemExit("dvc repro failed")
    for name, value in seconds.most_common():
        print(f"{name:15s} {value:7.1f} s  {value / total:5.1%}")
    other = sum(value for name, value in seconds.items() if name not in WORK) / total
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(
        f"total {total:.0f} s; all but training, exploration and evaluation {other:.1%}; largest process {peak:.2f} GB"
    )


if __name__ == "__main__":
    main()
