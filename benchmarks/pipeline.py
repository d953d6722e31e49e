"""Wall time of `dvc repro` by one process and by all cores, stage by stage, and what share each stage has.

`python benchmarks/pipeline.py [--iterations 1]` runs the pipeline twice in clones, with the defaults but for the number of
iterations; both must leave the same datasets, policies and evaluations. `--iterations 3` is what `make repro` runs.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ruamel.yaml import YAML

from coevolve.core.hashing import file_hash
from coevolve.core.processes import VARIABLE, available

ROOT = Path(__file__).parent.parent
WORK = ("train", "explore", "evaluate", "evaluate_base")
OUTPUTS = ("policies/*/model.safetensors", "data/*/*.jsonl", "data/*/*.parquet", "data/*/verified/*", "evaluations/*/*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1)
    iterations = parser.parse_args().iterations
    os.environ.pop(VARIABLE, None)
    many = available()
    one, expected = repro(iterations, 1)
    all_cores, made = repro(iterations, many)
    print(f"{'stage':15s} {'1 process':>10s} {many:>3d} processes   ratio   share of the latter")
    total = all_cores.total()
    for name, seconds in all_cores.most_common():
        print(f"{name:15s} {one[name]:8.1f} s {seconds:11.1f} s {seconds / one[name]:7.2f} {seconds / total:8.1%}")
    other = sum(seconds for name, seconds in all_cores.items() if name not in WORK) / total
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"total {one.total():.0f} s by 1 process, {total:.0f} s by {many}: {total / one.total():.2f} of the time")
    print(f"all but training, exploration and evaluation {other:.1%}; largest process {peak:.2f} GB")
    differ = sorted(name for name in {*expected, *made} if expected.get(name) != made.get(name))
    print("the same bytes by both" if not differ else f"these differ: {', '.join(differ)}")
    sys.exit(bool(differ))


def repro(iterations: int, processes: int) -> tuple["Counter[str]", dict[str, str]]:
    """Seconds by stage of `dvc repro` in a fresh clone, and the hashes of what it made."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "-q", str(ROOT), folder], check=True)
        cut(Path(folder) / "params.yaml", iterations)
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            VARIABLE: str(processes),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "dvc", "repro"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        seconds: Counter[str] = Counter()
        stage, since = "start", time.perf_counter()
        assert process.stdout is not None
        for line in process.stdout:
            now = time.perf_counter()
            # between stages DVC hashes and locks: that time is its own
            name = line.split("'")[1].split("@")[0] if line.startswith("Running stage '") else None
            if name or line.startswith("Updating lock file"):
                seconds[stage] += now - since
                stage, since = name or "dvc", now
        seconds[stage] += time.perf_counter() - since
        if process.wait() != 0:
            raise SystemExit("dvc repro failed")
        files = [file for pattern in OUTPUTS for file in Path(folder).glob(pattern) if file.is_file()]
        return seconds, {str(file.relative_to(folder)): file_hash(file) for file in files}


def cut(file: Path, iterations: int) -> None:
    """Leave the first ``iterations`` of params.yaml."""
    yaml = YAML()
    params = yaml.load(file.read_text(encoding="utf-8"))
    del params["iterations"][iterations:]
    with file.open("w", encoding="utf-8") as stream:
        yaml.dump(params, stream)


if __name__ == "__main__":
    main()
