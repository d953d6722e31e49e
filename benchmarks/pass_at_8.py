"""Measure pass@8 of the last policy of every run of a study.

    python benchmarks/pass_at_8.py studies/placebo-weak OUT

Run it where the study's experiments are. OUT keeps a file of outcomes per run; started again, the command plays what is missing.
Every task of the study's panel is tried eight times at temperature 1, with the same seeds for all policies.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from coevolve.commands.study import RESULTS, experiment
from coevolve.core.io import read_jsonl
from coevolve.core.outcomes import Outcome, passes, solved
from coevolve.core.statistics import estimate
from coevolve.readers.study_results import Result, load, paired

SAMPLES = 8
ONCE, SEVERAL = "pass@1", f"pass@{SAMPLES}"


def outcomes(name: str, last: int, panel: str, environment: str, tasks: int, out: Path) -> list[Outcome]:
    """The outcomes of policies/``last`` of the experiment ``name``, which ``out`` keeps."""
    if not out.exists():
        with tempfile.TemporaryDirectory() as folder:
            policy = Path(folder) / "policy"
            subprocess.run(["dvc", "get", "-q", ".", f"policies/{last}", "--rev", name, "-o", str(policy)], check=True)
            played = ["evaluate", "--environment", environment, "--policy", str(policy), "--split", panel]
            played += ["--tasks", str(tasks), "--samples", str(SAMPLES), "--temperature", "1", "--out", str(out)]
            subprocess.run([sys.executable, "-m", "coevolve.cli", *played], check=True, stdout=subprocess.DEVNULL)
    return read_jsonl(out, Outcome)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--environment", default="miniworld")
    parser.add_argument("--tasks", type=int, default=256)
    args = parser.parse_args()
    study = load(args.study / "study.yaml")
    args.out.mkdir(parents=True, exist_ok=True)
    found = []
    for run in read_jsonl(args.study / RESULTS, Result):
        name, last = experiment(args.study, run.arm, run.seed), len(run.success[study.panel]) - 1
        out = args.out / f"{run.arm}-{run.seed}.jsonl"
        played = outcomes(name, last, study.panel, args.environment, args.tasks, out)
        once = fmean(solved(played, study.panel).values())
        found.append(replace(run, success={ONCE: [once], SEVERAL: [passes(played)[SEVERAL]]}))
        print(f"{name}: {ONCE} {once:.3f}, {SEVERAL} {found[-1].success[SEVERAL][0]:.3f}", flush=True)
    print(f"\n| arm | seeds | {ONCE} | {SEVERAL} |{''.join(f' over {base} |' for base in study.against)}")
    print("|---" * (4 + len(study.against)) + "|")
    for arm in study.arms:
        ours = [run.success for run in found if run.arm == arm]
        if ours:
            cells = [str(estimate([one[panel][0] for one in ours])) for panel in (ONCE, SEVERAL)]
            gains = [paired(found, arm, base, SEVERAL) if base != arm else None for base in study.against]
            cells += ["" if gain is None else gain.points for gain in gains]
            print(f"| {arm} | {len(ours)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
