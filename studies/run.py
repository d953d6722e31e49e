"""Run each variant of an experiment over several seeds, in DVC's queue: `python -m studies.run FOLDER`."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from coevolve.commands.options import SWITCH, Help
from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
from coevolve.core.io import write_jsonl, write_text
from coevolve.core.numeric_options import count, whole
from coevolve.core.processes import MEMORY
from coevolve.core.programs import git
from coevolve.core.progress import bar
from coevolve.stages.schema import parse
from studies.run_queue import look, parameters, work
from studies.study_results import Result, Study, draw, load, report
from studies.study_runs import RESULTS, Run, experiment, finished, kept, params, stored

POLL = 10.0  # seconds between looks at DVC's queue; a look takes a second of CPU time
IDLE = 6  # looks without a worker, after which workers start again: DVC's may end while it reads the queue

HELP = """
  python -m studies.run studies/mine              # run all
  python -m studies.run studies/mine --seeds 0    # every arm with one seed
  python -m studies.run studies/mine --report     # write the results so far, and run nothing

FOLDER holds study.yaml, which lists seeds and arms. An arm is a variant of the experiment: a set of changes to params.yaml.
The command queues each missing run as a DVC experiment called FOLDER-ARM-SEED, starts DVC's workers, and waits. Ctrl-C ends
the waiting, and the runs go on: see `dvc queue status`, `dvc queue logs NAME`, and `dvc queue kill NAME`.

After each run it writes table.md, curves.svg and results.jsonl into FOLDER. Copy results.jsonl to
another machine to continue there. To repeat a run, remove its line and its experiment: `dvc exp remove FOLDER-ARM-SEED`.
Exits with 1 if any requested run is missing.
"""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.run", epilog=HELP, formatter_class=Help)
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="the folder of study.yaml")
    jobs = "experiments at the same time on this machine; use 1 on one GPU"
    add("--jobs", type=count, default=2, metavar="N", help=jobs)
    add("--arms", nargs="+", metavar="ARM", help="run only these arms now")
    add("--seeds", nargs="+", type=whole, metavar="SEED", help="run only these seeds now")
    add("--report", **SWITCH, help="write the results so far; run nothing")
    args = parser.parse_args(words)
    study = load(args.folder / "study.yaml")
    for option, given, known in (("arms", args.arms, list(study.arms)), ("seeds", args.seeds, study.seeds)):
        if unknown := [str(name) for name in given or () if name not in known]:
            expected = ", ".join(map(str, known))
            raise CoevolveError(f"--{option}: no {option[:-1]} {', '.join(unknown)}; expected some of: {expected}")
    runs = [(arm, seed) for seed in study.seeds for arm in study.arms]
    results, others = kept(args.folder, study)
    if others:
        print(f"{args.folder}: {len(others)} lines of {RESULTS} are not of this study: {others[0]}", file=sys.stderr)
    results |= finished(args.folder, study, [run for run in runs if run not in results])
    asked = [run for run in runs if run[0] in (args.arms or study.arms) and run[1] in (args.seeds or study.seeds)]
    missing = [run for run in asked if run not in results and not args.report and not study.ended]
    if missing:
        _run(args.folder, study, missing, results, args.jobs)
    if args.report or not study.ended:
        _write(args.folder, study, results)
    ended = "; the study has ended: a copy of study.yaml without `ended` repeats it" if study.ended else ""
    print(f"{args.folder}: {sum(run in results for run in runs)} of {len(runs)} runs in table.md{ended}")
    return 1 if any(run not in results for run in missing) else 0


def _run(folder: Path, study: Study, missing: list[Run], results: dict[Run, Result], jobs: int) -> None:
    """Make the ``missing`` runs and add their results to ``results``."""
    if changed := git("status", "--porcelain", "-uno", "--", "params.yaml", "dvc.yaml", "*.py").split():
        raise CoevolveError(f"{folder}: commit {changed[-1]} first, because each result names the commit of its run")
    now, arms = params(), list(study.arms)
    for arm in dict.fromkeys(arm for arm, _ in missing):
        parse(parameters(now, study.arms[arm]), f"arm {arm}")
    # runs of a seed share stages, which each would compute if they ran at the same time: as many seeds as jobs take turns
    ordered = sorted(missing, key=lambda run: (study.seeds.index(run[1]) // jobs, arms.index(run[0])))
    names = {experiment(folder, *run): run for run in ordered}
    queue, workers = look()
    under_way = {name for name, state in queue.items() if state == "Queued" or (state == "Running" and workers)}
    changes = {name: {"seed": seed, **study.arms[arm]} for name, (arm, seed) in names.items() if name not in under_way}
    work(changes, jobs, queue)
    idle = 0
    with bar(len(missing), folder.name, "runs") as progress:
        while left := [name for name, run in names.items() if run not in results]:
            queue, workers = look()
            new = finished(folder, study, [names[name] for name in left if queue.get(name) == "Success"])
            progress.update(len(new))
            results |= new
            if new:
                _write(folder, study, results)
            if not any(queue.get(name) in ("Queued", "Running") for name in left):
                break
            idle = 0 if workers else idle + 1
            if idle and idle % IDLE == 0:
                if lost := ", ".join(name for name in left if queue.get(name) == "Running"):
                    raise CoevolveError(f"no worker runs {lost}: it was killed; {MEMORY}")
                work({}, jobs, queue)
            time.sleep(POLL)
    if failed := [name for name, run in names.items() if run not in results]:
        print(f"failed: {', '.join(failed)}; `dvc queue logs NAME` says why", file=sys.stderr)


def _write(folder: Path, study: Study, found: dict[Run, Result]) -> None:
    results = [found[arm, seed] for seed in study.seeds for arm in study.arms if (arm, seed) in found]
    if not results:
        return
    # other results stay in the file: they were expensive, and the study may change back
    others = [one for one in stored(folder) if (one.arm, one.seed) not in found or one.seed not in study.seeds]
    write_jsonl(folder / RESULTS, [*results, *others])
    write_text(folder / "table.md", report(study, results))
    write_text(folder / "curves.svg", draw(study, results))


if __name__ == "__main__":
    guard(main)
