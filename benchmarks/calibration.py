"""Measure how near a task generator's tasks come to the target success rate, and how varied they are, in every run of a study.

    python benchmarks/calibration.py studies/claims-generator

Run it where the study's experiments are. The study's folder keeps a line per run and iteration in calibration.jsonl; another machine
adds its own runs. Distances are mean |p - alpha| over the accepted tasks of an iteration, before any selection. Compare arms with the
same verify.pass_rate_samples only: from fewer episodes, p is nearer to 1/2. The same agent also plays tasks of the untrained generator.
Below 0, the difference says that training helped. The last columns are about all readable specs of an iteration: entropy of the tools
that they name (1 if all are equally frequent), share of different specs, and tools per spec. Intervals are 95 %, by Student's t over
seeds.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dvc.api import DVCFileSystem

from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.stage_summary import SPEC_ENTROPY
from coevolve.core.statistics import estimate
from coevolve.stages.generate.calibration import MIDDLE_SHARE, OFF, OFF_CONTROL, OFF_DIFFERENCE
from coevolve.studies.study_results import load
from coevolve.studies.study_runs import exists, experiment, kept

STAGES = {
    "verify": (OFF, OFF_CONTROL, OFF_DIFFERENCE, MIDDLE_SHARE),
    "generate": (SPEC_ENTROPY, "distinct specs", "goals of a spec"),
}
FIGURES = [name for names in STAGES.values() for name in names]


@dataclass(frozen=True)
class Calibration:
    """The figures of a run's generator in one iteration; None where there is nothing to compare with."""

    run: str
    iteration: int
    figures: dict[str, float | None]


def read(run: str, experiment: str, iterations: int) -> list[Calibration]:
    files, found = DVCFileSystem(rev=experiment), []
    for t in range(iterations):
        summaries = {stage: json.loads(files.read_text(str(Paths.summary(t, stage))))["figures"] for stage in STAGES}
        figures = {name: summaries[stage].get(name) for stage, names in STAGES.items() for name in names}
        found.append(Calibration(run, t, figures))
    return found


def table(found: Sequence[Calibration]) -> list[str]:
    lines = [f"| iteration | runs | {' | '.join(FIGURES)} |", "|---" * (2 + len(FIGURES)) + "|"]
    for t in sorted({one.iteration for one in found}):
        rows = [one.figures for one in found if one.iteration == t]
        known = [[value for row in rows if (value := row[name]) is not None] for name in FIGURES]
        lines.append(f"| {t} | {len(rows)} | {' | '.join(str(estimate(one)) if one else '' for one in known)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    args = parser.parse_args()
    study = load(args.study / "study.yaml")
    runs = [run for run in kept(args.study, study)[0].values() if run.seed in study.seeds]
    file = args.study / "calibration.jsonl"
    found = read_jsonl(file, Calibration) if file.exists() else []
    known = {one.run for one in found}
    for run in runs:
        name = experiment(args.study, run.arm, run.seed)
        if run.run not in known and not exists(name):
            print(f"{name} is not here; run this where it is", file=sys.stderr)
        elif run.run not in known:
            found += read(run.run, name, len(run.success[study.panel]) - 1)
            write_jsonl(file, found)
    for arm in study.arms:
        ours = {run.run for run in runs if run.arm == arm}
        print(f"\n{arm}\n\n" + "\n".join(table([one for one in found if one.run in ours])))


if __name__ == "__main__":
    main()
