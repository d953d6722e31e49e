"""`coevolve signals` on generated trajectories: seconds and peak memory. `python benchmarks/signals.py [--largest 1000000]`"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TOOLS = [f"tool_{number}" for number in range(60)]
GROUP = 8


def write(path: Path, count: int) -> None:
    """``count`` trajectories in groups of 8, a Zipf over 60 tools, 4 to 12 calls each."""
    rng = random.Random(0)
    weights = [1 / (rank + 1) for rank in range(len(TOOLS))]
    call = pa.struct([("name", pa.string()), ("ok", pa.bool_())])
    schema = pa.schema(
        [
            ("task_id", pa.string()),
            ("iteration", pa.int64()),
            ("step", pa.int64()),
            ("trajectory_id", pa.string()),
            ("score", pa.float64()),
            ("calls", pa.list_(call)),
        ]
    )
    groups_a_step = 64
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, count, 50_000):
            rows = []
            for number in range(start, min(start + 50_000, count)):
                group = number // GROUP
                calls = rng.choices(TOOLS, weights, k=rng.randint(4, 12))
                rows.append(
                    {
                        "task_id": f"{group % 4096:016x}",
                        "iteration": 0,
                        "step": group // groups_a_step,
                        "trajectory_id": f"{number:016x}",
                        "score": float(rng.random() < 0.5),
                        "calls": [{"name": name, "ok": rng.random() < 0.9} for name in calls],
                    }
                )
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000)
    args = parser.parse_args()
    count = 10_000
    with tempfile.TemporaryDirectory() as folder:
        while count <= args.largest:
            path = Path(folder) / f"{count}.parquet"
            write(path, count)
            command = [sys.executable, "-c", "from coevolve.cli import main; main()", "signals", str(path)]
            began = time.perf_counter()
            subprocess.run([*command, "--out", f"{folder}/signals.jsonl"], check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - began
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
            print(f"{count:>8} trajectories: {seconds:.1f} s, at most {peak:.2f} GB so far", flush=True)
            count *= 10


if __name__ == "__main__":
    main()
