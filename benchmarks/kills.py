"""Kill the default run at random moments, each in another stage, and compare its hash with the README's.

`python benchmarks/kills.py [--kills 6] [--seed 0]` clones HEAD and starts `dvc repro`. It kills the run and all its processes by
SIGKILL, starts it again, and prints the stage of each kill and the run's hash.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
RUNNING = re.compile(r"Running stage '(.+)'")
LONG = {
    "train": 60.0,
    "verify": 15.0,
    "evaluate": 12.0,
}  # seconds from which a moment is drawn; other stages take a few seconds


def longest(stage: str) -> float:
    return LONG.get(re.split("[@_]", stage)[0], 2.0)


def stages(folder: Path) -> list[str]:
    listed = subprocess.run(
        [sys.executable, "-m", "dvc", "stage", "list", "--name-only"], cwd=folder, capture_output=True, text=True
    )
    return [name for name in listed.stdout.split() if name not in ("code", "base")]


def end(process: "subprocess.Popen[str]") -> None:
    """Kill the process and all its descendants."""
    family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for member in family:
        try:
            member.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    process.wait()


def unlock(folder: Path) -> None:
    """Remove the locks that a killed DVC leaves."""
    for lock in (folder / ".dvc/tmp").glob("*lock*"):
        shutil.rmtree(lock) if lock.is_dir() else lock.unlink()


def run(folder: Path, environment: dict[str, str], moments: dict[str, float]) -> str | None:
    """Run to the end, or kill the run in the first stage of ``moments`` (stage → seconds after its start). Returns that stage."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    current = None
    for line in process.stdout:
        if match := RUNNING.search(line):
            current = match[1]
            print(current, end=" ", flush=True)
            if current in moments:
                time.sleep(moments[current])
                end(process)
                unlock(folder)
                return current
    if process.wait():
        raise SystemExit(f"dvc repro ended with {process.returncode} in {current}")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        environment.pop("PYTHONPATH", None)
        victims = rng.sample(stages(folder), args.kills)
        moments = {victim: rng.uniform(0, longest(victim)) for victim in victims}
        print("kills:", ", ".join(f"{after:.1f} s into {victim}" for victim, after in moments.items()))
        while killed := run(folder, environment, moments):
            print(f"\nkilled in {killed} after {moments.pop(killed):.1f} s", flush=True)
        summary = json.loads((folder / "report/summary.json").read_text())
        print(f"\nrun {summary['run']}, {args.kills - len(moments)} kills; README: {readme()}")


def readme() -> str:
    found = re.search(r"^Run (\w+),", (ROOT / "README.md").read_text(), re.MULTILINE)
    return found[1] if found else "none"


if __name__ == "__main__":
    main()
