"""Measure seconds and peak memory of `coevolve signals` on generated trajectories.

`python benchmarks/signals.py [--largest 10000000]` writes files of at most a million rows. A glob reads them as one table.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

TOOLS = [f"tool_{number}" for number in range(60)]
GROUP, TASKS, GROUPS_A_STEP = 8, 4096, 64
FILE = 1_000_000


def write(path: Path, start: int, count: int) -> None:
    """Write ``count`` trajectories from number ``start`` on: groups of 8, a Zipf distribution over 60 tools, 4 to 12 calls each."""
    rng = np.random.default_rng(start)
    lengths = rng.integers(4, 13, count)
    weights = 1 / np.arange(1, len(TOOLS) + 1)
    names = rng.choice(len(TOOLS), lengths.sum(), p=weights / weights.sum())
    calls = pa.StructArray.from_arrays(
        [pa.DictionaryArray.from_arrays(names, TOOLS).cast(pa.string()), pa.array(rng.random(len(names)) < 0.9)],
        ["name", "ok"],
    )
    number = np.arange(start, start + count)
    group = number // GROUP
    table = pa.table(
        {
            "task_id": [f"{task:016x}" for task in group % TASKS],
            "iteration": np.zeros(count, dtype=np.int64),
            "step": group // GROUPS_A_STEP,
            "trajectory_id": [f"{one:016x}" for one in number],
            "score": (rng.random(count) < 0.5).astype(float),
            "calls": pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]), calls),
        }
    )
    pq.write_table(table, path)


def measured(command: list[str]) -> tuple[float, float]:
    """Seconds, and peak memory in GB, of a command."""
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def look() -> None:
        nonlocal peak
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, watched.memory_info().rss)
            time.sleep(0.02)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - began, peak / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000)
    args = parser.parse_args()
    count = 10_000
    while count <= args.largest:
        with tempfile.TemporaryDirectory() as folder:
            for start in range(0, count, FILE):
                write(Path(folder) / f"{start:012d}.parquet", start, min(FILE, count - start))
            read = [f"{folder}/*.parquet", "--out", f"{folder}/signals.jsonl"]
            seconds, peak = measured([sys.executable, "-m", "coevolve.cli", "signals", *read])
        print(f"{count:>9} trajectories: {seconds:.1f} s, {peak:.2f} GB", flush=True)
        count *= 10


if __name__ == "__main__":
    main()
