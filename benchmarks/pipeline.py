"""Measure the wall time of the pipeline, stage by stage: with one process and with all cores, or for two commits.

`python benchmarks/pipeline.py [--iterations 1] [--against COMMIT]` runs each stage in two clones, one after the other, so that a drift
of the machine's speed affects both. It uses the defaults except for the number of iterations; `make repro` runs 3. Without
`--against`, both clones must write the same datasets, policies and evaluations. With it, each clone first installs its own
environment by `make install`, and stages run with the variables of its Makefile. The last line gives the time that the host took from
this virtual machine.
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
from itertools import zip_longest
from pathlib import Path

from ruamel.yaml import YAML

from coevolve.core.hashing import file_hash
from coevolve.core.processes import VARIABLE, available

ROOT = Path(__file__).parent.parent
WORK = ("train", "explore", "evaluate", "evaluate_base")
OUTPUTS = ("policies/*/model.safetensors", "data/*/*.jsonl", "data/*/*.parquet", "data/*/verified/*", "evaluations/*/*")
RUNNING = "Running stage '"  # what DVC prints before a stage


class Clone:
    """A clone of ``commit`` in ``folder``, whose stages run with ``processes`` processes."""

    def __init__(self, folder: Path, processes: int, iterations: int, commit: str = "HEAD") -> None:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        subprocess.run(["git", "checkout", "-q", commit], cwd=folder, check=True)
        cut(folder / "params.yaml", iterations)
        self.folder, self.processes = folder, processes
        self.python = sys.executable
        self.environment = dict(os.environ)
        self.seconds: dict[str, float] = defaultdict(float)
        self.stolen = 0.0

    def install(self) -> None:
        """Install the clone's environment, and read the variables of its Makefile."""
        for name in ("PYTHONPATH", "VIRTUAL_ENV"):
            self.environment.pop(name, None)
        subprocess.run(["make", "-s", "install"], cwd=self.folder, env=self.environment, check=True)
        command = ["make", "-s", "--eval", "variables: ; @env -0", "variables"]
        variables = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, check=True)
        pairs = variables.stdout.decode().rstrip("\0").split("\0")
        self.environment = dict(pair.split("=", 1) for pair in pairs)
        self.python = str(self.folder / ".venv/bin/python")

    def stages(self) -> list[str]:
        """The stages of `dvc repro`, in an order in which each stage has its inputs."""
        script = (
            "import networkx, dvc.repo; order = networkx.dfs_postorder_nodes(dvc.repo.Repo().index.graph); "
            "print(*(stage.name for stage in order))"
        )
        listed = subprocess.run(
            [self.python, "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [stage for stage in listed.stdout.splitlines()[-1].split() if stage != "base"]

    def run(self, stage: str) -> None:
        """Run a stage. Its wall time is from its start to DVC's end, without DVC's check of the single stage before it."""
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
        path = f"{Path(self.python).parent}{os.pathsep}{self.environment['PATH']}"
        environment = {**self.environment, "PATH": path, VARIABLE: str(self.processes)}
        command = [self.python, "-m", "dvc", "repro", *arguments]
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield from process.stdout
        if process.returncode:
            raise SystemExit("dvc repro failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--against", metavar="COMMIT", help="a commit to compare with HEAD, both with all cores")
    args = parser.parse_args()
    os.environ.pop(VARIABLE, None)
    with tempfile.TemporaryDirectory() as folder:
        now = Clone(Path(folder) / "now", available(), args.iterations)
        before = Clone(
            Path(folder) / "before", now.processes if args.against else 1, args.iterations, args.against or "HEAD"
        )
        if args.against:
            before.install()
            now.install()
        for number, stages in enumerate(zip_longest(before.stages(), now.stages())):
            turns = list(zip((before, now), stages, strict=True))
            for clone, stage in turns if number % 2 else reversed(turns):
                if stage:
                    clone.run(stage)
        expected, actual = before.outputs(), now.outputs()
    names = (args.against, "HEAD") if args.against else ("1 process", f"{now.processes} processes")
    show(before, now, *names)
    if args.against:
        return
    differ = sorted(name for name in {*expected, *actual} if expected.get(name) != actual.get(name))
    print("both clones wrote the same bytes" if not differ else f"these files differ: {', '.join(differ)}")
    sys.exit(bool(differ))


def show(before: Clone, now: Clone, before_name: str, now_name: str) -> None:
    totals = [sum(clone.seconds.values()) for clone in (before, now)]
    print(f"{'stage':15s} {before_name[:12]:>12s} {now_name[:12]:>12s}   ratio   share of the latter")
    for name in sorted({*before.seconds, *now.seconds}, key=lambda name: -now.seconds[name]):
        first, second = before.seconds[name], now.seconds[name]
        ratio = f"{second / first:7.2f}" if first else " " * 7
        print(f"{name:15s} {first:10.1f} s {second:10.1f} s {ratio} {second / totals[1]:8.1%}")
    other = sum(seconds for name, seconds in now.seconds.items() if name not in WORK) / totals[1]
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"total {totals[0]:.0f} s and {totals[1]:.0f} s: {totals[1] / totals[0]:.2f} of the time")
    print(f"all but training, exploration and evaluation {other:.1%}; largest process {peak:.2f} GB")
    shares = [clone.stolen / total / (os.cpu_count() or 1) for clone, total in zip((before, now), totals, strict=True)]
    print(f"taken by the host: {shares[0]:.0%} and {shares[1]:.0%} of this machine's cores")


def steal() -> float:
    """Core-seconds since the start that the host took from this virtual machine; 0 if they are not counted."""
    try:
        ticks = int(Path("/proc/stat").read_text().split()[8])
    except (OSError, IndexError, ValueError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")


def cut(file: Path, iterations: int) -> None:
    """Keep only the first ``iterations`` of params.yaml."""
    yaml = YAML()
    params = yaml.load(file.read_text(encoding="utf-8"))
    del params["iterations"][iterations:]
    with file.open("w", encoding="utf-8") as stream:
        yaml.dump(params, stream)


if __name__ == "__main__":
    main()
