"""Wall time of the pipeline by one process and by all cores, stage by stage, and what share each stage has.

`python benchmarks/pipeline.py [--iterations 1]` runs each stage in two clones in turn, so that a machine whose speed drifts is
as slow for both, with the defaults but for the number of iterations; both must leave the same datasets, policies and
evaluations. `--iterations 3` is what `make repro` runs. What a host takes from a virtual machine is said at the end.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML

from coevolve.core.hashing import file_hash
from coevolve.core.processes import VARIABLE, available

ROOT = Path(__file__).parent.parent
WORK = ("train", "explore", "evaluate", "evaluate_base")
OUTPUTS = ("policies/*/model.safetensors", "data/*/*.jsonl", "data/*/*.parquet", "data/*/verified/*", "evaluations/*/*")
RUNNING = "Running stage '"  # what DVC prints before a stage


class Clone:
    """A clone of the repository in ``folder``, whose stages run by so many ``processes``."""

    def __init__(self, folder: Path, processes: int, iterations: int) -> None:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        cut(folder / "params.yaml", iterations)
        self.folder, self.processes = folder, processes
        self.seconds: dict[str, float] = defaultdict(float)
        self.stolen = 0.0

    def stages(self) -> list[str]:
        """What `dvc repro` would run, in an order in which each stage has what it needs."""
        import networkx
        from dvc.repo import Repo

        with Repo(str(self.folder)) as repo:
            order = networkx.dfs_postorder_nodes(repo.index.graph)
            return [stage.name for stage in order if stage.name != "base"]

    def run(self, stage: str) -> None:
        """Wall time is from the stage's start to DVC's end: what DVC takes to look at one stage alone is no part of a run."""
        start, stolen = time.perf_counter(), steal()
        for line in self._dvc("--single-item", stage):
            if line.startswith(RUNNING):
                start, stolen = time.perf_counter(), steal()
        self.seconds[stage.split("@")[0]] += time.perf_counter() - start
        self.stolen += steal() - stolen

    def outputs(self) -> dict[str, str]:
        files = [file for pattern in OUTPUTS for file in self.folder.glob(pattern) if file.is_file()]
        return {str(file.relative_to(self.folder)): file_hash(file) for file in files}

    def _dvc(self, *arguments: str) -> Iterator[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, VARIABLE: str(self.processes)}
        command = [sys.executable, "-m", "dvc", "repro", *arguments]
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield from process.stdout
        if process.returncode:
            raise SystemExit("dvc repro failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1)
    iterations = parser.parse_args().iterations
    os.environ.pop(VARIABLE, None)
    with tempfile.TemporaryDirectory() as folder:
        one, many = (Clone(Path(folder) / str(count), count, iterations) for count in (1, available()))
        for number, stage in enumerate(one.stages()):
            for clone in (one, many) if number % 2 else (many, one):
                clone.run(stage)
        expected, made = one.outputs(), many.outputs()
    print(f"{'stage':15s} {'1 process':>10s} {many.processes:>3d} processes   ratio   share of the latter")
    total = sum(many.seconds.values())
    for name, seconds in sorted(many.seconds.items(), key=lambda pair: -pair[1]):
        alone = one.seconds[name]
        print(f"{name:15s} {alone:8.1f} s {seconds:11.1f} s {seconds / alone:7.2f} {seconds / total:8.1%}")
    other = sum(seconds for name, seconds in many.seconds.items() if name not in WORK) / total
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    alone = sum(one.seconds.values())
    print(f"total {alone:.0f} s by 1 process, {total:.0f} s by {many.processes}: {total / alone:.2f} of the time")
    print(f"all but training, exploration and evaluation {other:.1%}; largest process {peak:.2f} GB")
    cores = os.cpu_count() or 1
    print(
        f"taken by the host: {one.stolen / alone / cores:.0%} and {many.stolen / total / cores:.0%} of this machine's cores"
    )
    differ = sorted(name for name in {*expected, *made} if expected.get(name) != made.get(name))
    print("the same bytes by both" if not differ else f"these differ: {', '.join(differ)}")
    sys.exit(bool(differ))


def steal() -> float:
    """Core-seconds since the start that the host kept from this virtual machine; 0 where nobody counts them."""
    try:
        ticks = int(Path("/proc/stat").read_text().split()[8])
    except (OSError, IndexError, ValueError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")


def cut(file: Path, iterations: int) -> None:
    """Leave the first ``iterations`` of params.yaml."""
    yaml = YAML()
    params = yaml.load(file.read_text(encoding="utf-8"))
    del params["iterations"][iterations:]
    with file.open("w", encoding="utf-8") as stream:
        yaml.dump(params, stream)


if __name__ == "__main__":
    main()
