"""``coevolve study``: run each variant of an experiment over several seeds, as queued DVC experiments."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.commands.options import SWITCH, typed
from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import count, whole

if TYPE_CHECKING:
    from coevolve.studies.study_results import Result, Study

HELP = """
  coevolve study studies/ablation              # run all
  coevolve study studies/ablation --arms static signals
  coevolve study studies/ablation --seeds 0    # every arm with one seed
  coevolve study studies/ablation --report     # write the results so far, and run nothing
  coevolve study studies/ablation --plan       # print runs, hours, and the smallest difference that the seeds can detect

FOLDER holds study.yaml, which lists seeds and arms. An arm is a variant of the experiment: a set of changes to params.yaml.
The command runs each arm with each seed as a DVC experiment called FOLDER-ARM-SEED, in a temporary copy. Runs share their
common stages through DVC's run cache. Interrupt the command at any time: started again, it makes only the missing runs.

After every run the command writes the results so far into FOLDER:

  table.md, results.csv     the comparison of the arms
  curves.svg, tokens.svg    success by iteration, and by tokens generated in training
  arms.svg                  success of the last policy of each arm
  results.jsonl             all runs; copy it to another machine to continue there. To repeat a run, remove its line and
                            its experiment: `dvc exp remove FOLDER-ARM-SEED`

Exits with 1 if any requested run is missing.
An arm whose parameters are refused, such as a key that coevolve no longer has, keeps its results and gets no more runs.
With compute.engine: ray in params.yaml, each run plays and verifies on the cluster.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", type=typed, metavar="FOLDER", help="the folder of study.yaml")
    jobs = "experiments at the same time on this machine; use 1 on one GPU"
    add("--jobs", type=count, default=2, metavar="N", help=jobs)
    add("--arms", nargs="+", metavar="ARM", help="run only these arms now")
    add("--seeds", nargs="+", type=whole, metavar="SEED", help="run only these seeds now")
    add("--report", **SWITCH, help="write the results so far; run nothing")
    add("--plan", **SWITCH, help="print the number of runs, their time and their precision; run nothing")


def run(args: argparse.Namespace) -> int:
    from coevolve.core.scratch import alone, scratch
    from coevolve.studies.arms import refused, unsaid
    from coevolve.studies.study_results import load
    from coevolve.studies.study_runs import RESULTS, finished, kept, params

    study = load(args.folder / "study.yaml")
    if unknown := sorted(set(args.arms or ()) - set(study.arms)):
        raise CoevolveError(f"--arms: no arm {', '.join(unknown)}; expected some of: {', '.join(study.arms)}")
    if strange := sorted(set(args.seeds or ()) - set(study.seeds)):
        raise CoevolveError(
            f"--seeds: no seed {', '.join(map(str, strange))}; expected some of: {', '.join(map(str, study.seeds))}"
        )
    runs = [(arm, seed) for seed in study.seeds for arm in study.arms]
    found, others = kept(args.folder, study)
    if others:
        print(
            f"{args.folder / RESULTS}: {len(others)} results are not of the study as it is now: {others[0]}",
            file=sys.stderr,
        )
    found |= finished(args.folder, study, runs)
    closed = {arm: reason for arm, changes in study.arms.items() if (reason := refused(params(), changes))}
    possible = [run for run in runs if run in found or run[0] not in closed]
    for arm in dict.fromkeys(arm for arm, seed in runs if (arm, seed) not in possible):
        print(
            f"{args.folder}: arm {arm} gets no runs, and its results stay: {closed[arm]}",
            file=sys.stderr,
        )
    wanted = [
        run for run in possible if (not args.arms or run[0] in args.arms) and (not args.seeds or run[1] in args.seeds)
    ]
    if args.plan:
        _plan(args.folder, study, wanted, found, args.jobs)
        return 0
    if not args.report and any(run not in found for run in wanted):
        for arm in dict.fromkeys(arm for arm, _ in wanted):
            if kept_part := unsaid(params(), study.arms[arm]):
                raise CoevolveError(f"{args.folder}: arms.{arm}: {kept_part}")
        busy = f"{args.folder}: another `coevolve study` makes runs here; wait for its end, or stop it"
        with alone(scratch() / f".study-{args.folder.resolve().name}.lock", busy):
            # another command may have made some until now
            found |= finished(args.folder, study, [run for run in wanted if run not in found])
            _run(args.folder, study, wanted, found, args.jobs)
    _write(args.folder, study, found)
    written = "; table.md, results.csv, curves.svg, tokens.svg, arms.svg" if found else ""
    done = sum(run in found for run in possible)
    print(f"{args.folder}: {done} of {len(possible)} runs{written}")
    return 0 if args.report or all(run in found for run in wanted) else 1


def _plan(
    folder: Path,
    study: "Study",
    wanted: list[tuple[str, int]],
    found: dict[tuple[str, int], "Result"],
    jobs: int,
) -> None:
    from statistics import median

    from coevolve.core.stage_seconds import seconds
    from coevolve.studies.plan import POWER, SEEDS, USUAL, deviation, sight
    from coevolve.studies.study_runs import experiment

    arms, seeds = dict.fromkeys(arm for arm, _ in wanted), dict.fromkeys(seed for _, seed in wanted)
    left = [run for run in wanted if run not in found]
    print(f"{folder}: {len(arms)} arms x {len(seeds)} seeds, {len(wanted)} runs, {len(left)} to run")
    took = [sum(notes.values()) for run in found if (notes := seconds(experiment(folder, *run)))]
    if took:
        each = median(took)
        print(
            f"a run took {each / 60:.1f} min here (median of {len(took)}, without shared stages): {len(left)} runs take about "
            f"{each * len(left) / jobs / 3600:.1f} h, {jobs} at the same time"
        )
    else:
        print("the time of a run is not known on this machine yet; run one seed with --seeds to measure it")
    known = deviation(list(found.values()), study.panel)
    spread = known[0] if known else USUAL
    whence = f"from {known[1]} pairs of its arms" if known else "from studies/ablation, until this study has runs"
    print(
        f"\nstandard deviation over seeds of the difference of two arms on {study.panel}: {spread * 100:.1f} points ({whence})\n"
    )
    print(f"seeds   half of the 95 % interval   a difference that {POWER:.0%} of such studies would detect")
    for number in sorted({*SEEDS, *([len(seeds)] if len(seeds) > 1 else [])}):
        one = sight(spread, number)
        print(f"{number:5d}   {one.half * 100:17.1f} points   {one.smallest * 100:6.1f} points")
    if len(study.claims) > 1:
        print(
            f"\nthis holds for one claim; the study tests {len(study.claims)} claims together, so the largest effect must be clearer"
        )


def _run(
    folder: Path,
    study: "Study",
    runs: list[tuple[str, int]],
    found: dict[tuple[str, int], "Result"],
    jobs: int,
) -> None:
    """Make the missing ``runs`` and add their results to ``found``."""
    from coevolve.core.progress import bar
    from coevolve.studies.plan import in_turns
    from coevolve.studies.run_queue import work
    from coevolve.studies.study_runs import experiment, finished

    left = in_turns([run for run in runs if run not in found], jobs)
    missing = {experiment(folder, *run): run for run in left}
    with bar(len(runs), folder.name, "runs", len(runs) - len(missing)) as progress:

        def ended(names: Sequence[str]) -> list[str]:
            new = finished(folder, study, [missing[name] for name in names])
            progress.update(len(new))
            if new:
                found.update(new)
                _write(folder, study, found)
            return [experiment(folder, *run) for run in new]

        wanted = {name: {"seed": seed, **study.arms[arm]} for name, (arm, seed) in missing.items()}
        failed = work(wanted, jobs, ended)
    if failed:
        print(f"failed: {', '.join(failed)}; `dvc queue logs NAME` says why", file=sys.stderr)


def _write(folder: Path, study: "Study", found: dict[tuple[str, int], "Result"]) -> None:
    from coevolve.core.io import write_jsonl, write_text
    from coevolve.studies.study_results import draw, report, rows
    from coevolve.studies.study_runs import RESULTS, stored

    # other results stay in the file: they were expensive, and the study may change back
    others = [one for one in stored(folder) if (one.arm, one.seed) not in found]
    arms = list(dict.fromkeys([*study.arms, *sorted(one.arm for one in others)]))
    ordered = sorted([*found.values(), *others], key=lambda one: (one.seed, arms.index(one.arm)))
    results = [one for one in ordered if one.seed in study.seeds and (one.arm, one.seed) in found]
    if not results:
        return
    write_jsonl(folder / RESULTS, ordered)
    write_text(folder / "results.csv", rows(results))
    write_text(folder / "table.md", report(study, results))
    for name, figure in draw(study, results).items():
        write_text(folder / name, figure)
