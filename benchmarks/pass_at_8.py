"""Measure pass@8 of the last policy of every run of a study.

    python benchmarks/pass_at_8.py studies/placebo-weak

Run it where the study's experiments are. The study's folder keeps a line per run in pass_at_8.jsonl; started again, also on another
machine, the command plays what is missing. 256 tasks of the study's panel are tried eight times each at temperature 1, with the
same seeds for all policies.
"""

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from dvc.api import DVCFileSystem

from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.core.outcomes import Outcome, passes, solved
from coevolve.core.statistics import estimate
from coevolve.core.yaml_files import read_yaml
from coevolve.studies.study_results import load, paired
from coevolve.studies.study_runs import exists, experiment, kept

SAMPLES, TASKS = 8, 256
ONCE, SEVERAL = "pass@1", f"pass@{SAMPLES}"


@dataclass(frozen=True)
class Played:
    """Success of a run's last policy on ``panel``: the mean over attempts, and the share of tasks that one of eight solves."""

    run: str
    panel: str
    once: float
    several: float


def play(name: str, last: int, panel: str) -> list[Outcome]:
    """Eight attempts of policies/``last`` of the experiment ``name`` at each task of its environment."""
    environment = str(read_yaml(DVCFileSystem(rev=name).read_text("params.yaml"), name)["environment"])
    with tempfile.TemporaryDirectory() as folder:
        policy, out = Path(folder) / "policy", Path(folder) / "outcomes.jsonl"
        subprocess.run(["dvc", "get", "-q", ".", f"policies/{last}", "--rev", name, "-o", str(policy)], check=True)
        played = ["evaluate", "--environment", environment, "--policy", str(policy), "--split", panel]
        played += ["--tasks", str(TASKS), "--samples", str(SAMPLES), "--temperature", "1", "--out", str(out)]
        subprocess.run([sys.executable, "-m", "coevolve.cli", *played], check=True, stdout=subprocess.DEVNULL)
        return read_jsonl(out, Outcome)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    args = parser.parse_args()
    study = load(args.study / "study.yaml")
    file = args.study / "pass_at_8.jsonl"
    known = {(one.run, one.panel): one for one in read_jsonl(file, Played)} if file.exists() else {}
    found = []
    for (arm, seed), run in kept(args.study, study)[0].items():
        if seed not in study.seeds:
            continue
        key, name = (run.run, study.panel), experiment(args.study, arm, seed)
        if key not in known:
            if not exists(name):
                print(f"{name} is not here; run this where it is", file=sys.stderr)
                continue
            outcomes = play(name, len(run.success[study.panel]) - 1, study.panel)
            once = fmean(solved(outcomes, study.panel).values())
            known[key] = Played(*key, once, passes(outcomes)[SEVERAL])
            write_jsonl(file, known.values())
        played = known[key]
        found.append(replace(run, success={ONCE: [played.once], SEVERAL: [played.several]}))
        print(f"{run.arm} {run.seed}: {ONCE} {played.once:.3f}, {SEVERAL} {played.several:.3f}", flush=True)
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
