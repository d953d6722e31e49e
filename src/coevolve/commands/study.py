"""``coevolve study``: arms × seeds as queued DVC experiments, and what came of them."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError

if TYPE_CHECKING:
    from coevolve.core.workers import Compute
    from coevolve.readers.study_results import Result, Study

Collect = Callable[[dict[tuple[str, int], "Result"]], None]

HELP = """
FOLDER holds study.yaml: seeds, and arms as changes of params.yaml. Each arm and seed is a DVC experiment
(`<folder>-<arm>-<seed>`), run from the queue in a temporary copy; what two runs share comes from DVC's run cache. Stopped and
started again, it goes on with the runs that are missing. Results so far are written after every run:
results.csv, table.md, curves.svg (success by iteration), tokens.svg (by tokens generated in training), arms.svg (of the last policy),
and results.jsonl, every run whole: with that file another machine goes on where this one stopped. Take a line out of it to have its run made again.
An arm that sets a removed parameter keeps its results and has no more runs.
With compute.engine: ray in params.yaml, runs are spread over the cluster's machines, compute.cpus for each; what comes back is their results.

  coevolve study studies/ablation              # make study
  coevolve study studies/ablation --arms static signals
  coevolve study studies/ablation --seeds 0    # every arm once, first
  coevolve study studies/ablation --report     # only write what is known
  coevolve study studies/ablation --plan       # runs, hours, and the difference that so many seeds can see
"""

RESULTS = "results.jsonl"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="experiments at once on this machine (2); 1 for one GPU"
    )
    parser.add_argument("--arms", nargs="+", metavar="ARM", help="run only these now")
    parser.add_argument("--seeds", nargs="+", type=int, metavar="SEED", help="run only these now")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--plan", action="store_true", help="run nothing: how many runs, how long, what they could see")


def run(args: argparse.Namespace) -> int:
    from coevolve.core.yaml_files import removed
    from coevolve.readers.study_results import load

    study = load(args.folder / "study.yaml")
    if unknown := sorted(set(args.arms or ()) - set(study.arms)):
        raise CoevolveError(f"--arms: no arm {', '.join(unknown)}; expected some of: {', '.join(study.arms)}")
    if strange := sorted(set(args.seeds or ()) - set(study.seeds)):
        raise CoevolveError(
            f"--seeds: no seed {', '.join(map(str, strange))}; expected some of: {', '.join(map(str, study.seeds))}"
        )
    runs = [(arm, seed) for seed in study.seeds for arm in study.arms]  # a seed's arms share their first iteration
    kept, others = _kept(args.folder, study)
    if others:
        print(f"{args.folder / RESULTS}: {len(others)} results are of other parameters: {others[0]}", file=sys.stderr)
    found = {**kept, **_finished(args.folder, study, runs)}
    closed = {arm: key for arm, changes in study.arms.items() if (key := removed(changes))}
    possible = [run for run in runs if run in found or run[0] not in closed]
    for arm in dict.fromkeys(arm for arm, seed in runs if (arm, seed) not in possible):
        print(
            f"{args.folder}: arm {arm} sets {closed[arm]}, which has been removed: its results stay, and it has no more runs",
            file=sys.stderr,
        )
    wanted = [
        run for run in possible if (not args.arms or run[0] in args.arms) and (not args.seeds or run[1] in args.seeds)
    ]
    if args.plan:
        _plan(args.folder, study, wanted, found, args.jobs)
        return 0
    if not args.report and any(run not in found for run in wanted):
        later = {_name(args.folder, *run) for run in runs if run not in wanted}
        _run(args.folder, study, wanted, found, args.jobs, later)
    _write(args.folder, study, found)
    written = "; table.md, results.csv, curves.svg, tokens.svg, arms.svg" if found else ""
    done = sum(run in found for run in possible)
    print(f"{args.folder}: {done} of {len(possible)} runs{written}")
    return 0 if done == len(possible) else 1


def _plan(
    folder: Path,
    study: "Study",
    wanted: list[tuple[str, int]],
    found: dict[tuple[str, int], "Result"],
    jobs: int,
) -> None:
    from statistics import median

    from coevolve.core.stage_seconds import seconds
    from coevolve.readers.plan import POWER, SEEDS, USUAL, deviation, sight

    arms, seeds = dict.fromkeys(arm for arm, _ in wanted), dict.fromkeys(seed for _, seed in wanted)
    left = [run for run in wanted if run not in found]
    print(f"{folder}: {len(arms)} arms x {len(seeds)} seeds, {len(wanted)} runs, {len(left)} to run")
    took = [sum(notes.values()) for run in found if (notes := seconds(_name(folder, *run)))]
    if took:
        each = median(took)
        print(
            f"a run took {each / 60:.1f} min here (median of {len(took)}, without what it shared): {len(left)} take about "
            f"{each * len(left) / jobs / 3600:.1f} h, {jobs} at once"
        )
    else:
        print("how long a run takes is not known here yet; --seeds with one of them tells")
    known = deviation(list(found.values()), study.panel)
    spread = known[0] if known else USUAL
    whence = f"{known[1]} pairs of its arms" if known else "studies/ablation; its own runs will tell better"
    print(
        f"\nfrom seed to seed the difference of two arms on {study.panel} varies by {spread * 100:.1f} points ({whence}):\n"
    )
    print(f"seeds   half of the 95 % interval   a difference that {POWER:.0%} of such studies would see")
    for count in sorted({*SEEDS, *([len(seeds)] if len(seeds) > 1 else [])}):
        one = sight(spread, count)
        print(f"{count:5d}   {one.half * 100:17.1f} points   {one.smallest * 100:6.1f} points")
    if len(study.claims) > 1:
        print(f"\nfor one claim; of {len(study.claims)}, judged together, the largest must be clearer")


def _name(folder: Path, arm: str, seed: int) -> str:
    return f"{folder.resolve().name}-{arm}-{seed}"


def _finished(folder: Path, study: "Study", runs: list[tuple[str, int]]) -> dict[tuple[str, int], "Result"]:
    """Results of the experiments that are there and whole."""
    from dvc.api import DVCFileSystem

    from coevolve.stages.report.run_summary import SUMMARY

    found = {}
    code = _baselines()
    for arm, seed in runs:
        name = _name(folder, arm, seed)
        try:
            files = DVCFileSystem(rev=name)
            files.read_text(str(SUMMARY))
        except Exception:  # no such experiment, or it did not get so far: DVC has many words for that
            continue
        found[arm, seed] = _result(files, study, (arm, seed), name, code.get(name, "unknown"))
    return found


def _result(files: Any, study: "Study", run: tuple[str, int], name: str, code: str) -> "Result":
    """What came of a run of ``code``, from its ``files``; a CoevolveError, if it is not the one that the study asks for."""
    from coevolve.core.io import parse
    from coevolve.core.yaml_files import read_yaml
    from coevolve.readers.arms import departure, parameters
    from coevolve.readers.study_results import result, unplayed
    from coevolve.stages.report.run_summary import SUMMARY, Summary

    arm, seed = run
    try:
        summary = parse(Summary, json.loads(files.read_text(str(SUMMARY))), f"{name}: {SUMMARY}")
    except (CoevolveError, ValueError) as error:
        raise CoevolveError(f"{error}; if other code made it, run it again: `dvc exp remove {name}`") from None
    if other := departure(
        read_yaml(files.read_text("params.yaml"), f"{name}: params.yaml"), parameters(_params(), study.arms[arm])
    ):
        raise CoevolveError(f"{name} ran with {other}, as its arm is now; to run it again: `dvc exp remove {name}`")
    if unseen := unplayed(study, summary.panels):
        raise CoevolveError(f"{name} played {', '.join(summary.panels)}, not {', '.join(unseen)} of its study.yaml")
    subsets = _subsets(files, study, summary.last) if study.subsets else None
    return result(arm, seed, summary, subsets, code, study.arms[arm])


def _kept(folder: Path, study: "Study") -> tuple[dict[tuple[str, int], "Result"], list[str]]:
    """Results in RESULTS, of arms that are still what they were, for experiments stay on the machine that ran them; and of the others
    in what they differ.
    """
    from coevolve.readers.arms import departure, parameters

    found, others = {}, []
    now, then = _params(), cache(_params)
    for one in _read(folder):
        if one.arm in study.arms:
            ran, arm = then(one.code), study.arms[one.arm]
            if ran:
                other = departure(parameters(ran, one.changes), parameters(now, arm))
            else:  # of a commit that is not here only the changes are known
                other = None if one.changes == arm else f"{one.changes}, not {arm}"
            if other:
                others.append(f"{one.arm} {one.seed} ran with {other}")
            else:
                found[one.arm, one.seed] = one
    return found, others


def _read(folder: Path) -> list["Result"]:
    from coevolve.core.io import read_jsonl
    from coevolve.readers.study_results import Result

    return read_jsonl(folder / RESULTS, Result) if (folder / RESULTS).exists() else []


def _params(code: str | None = None) -> dict[str, Any]:
    """The parameters of the commit ``code``, or of the working tree; of a commit that is not here, none."""
    from coevolve.core.yaml_files import load_yaml, read_yaml

    if code is None:
        return load_yaml(Path("params.yaml"), "run from the repository's root")
    shown = subprocess.run(["git", "show", f"{code or 'unknown'}:params.yaml"], capture_output=True, text=True)
    params: dict[str, Any] = read_yaml(shown.stdout, f"{code}: params.yaml") if shown.returncode == 0 else {}
    return params


def _baselines() -> dict[str, str]:
    """The commit that each experiment builds on, which DVC keeps in the names of its references."""
    done = subprocess.run(["git", "for-each-ref", "--format=%(refname)", "refs/exps"], capture_output=True, text=True)
    parts = [line.split("/") for line in done.stdout.splitlines()]
    return {one[4]: one[2] + one[3] for one in parts if len(one) == 5}


def _subsets(files: Any, study: "Study", last: int) -> dict[str, list[float]]:
    """Success of policies 0 to ``last`` on the subsets of the study's panel, from an experiment's ``files``."""
    from coevolve.core.io import parse_jsonl
    from coevolve.core.outcomes import OUTCOMES, Outcome, solved
    from coevolve.core.paths import Paths
    from coevolve.core.task import Task
    from coevolve.readers.study_results import cut

    def rows(path: Path, kind: type[Any]) -> list[Any]:
        return parse_jsonl(files.read_text(str(path)), kind, str(path))

    tasks = rows(Paths.panel(study.panel), Task)
    played = [rows(Paths.evaluation(t) / OUTCOMES, Outcome) for t in range(last + 1)]
    return cut(study.subsets, tasks, [solved(outcomes, study.panel) for outcomes in played])


def _run(
    folder: Path,
    study: "Study",
    runs: list[tuple[str, int]],
    found: dict[tuple[str, int], "Result"],
    jobs: int,
    later: Collection[str],
) -> None:
    """Run those of ``runs`` that are missing, and add their results to ``found``; those named in ``later`` are not for now."""
    from coevolve.core.progress import bar
    from coevolve.stages.schema import parse

    compute = parse(_params(), "params.yaml").compute
    missing = {_name(folder, *run): run for run in runs if run not in found}
    with bar(len(runs), folder.name, "runs", len(runs) - len(missing)) as progress:

        def collect(new: dict[tuple[str, int], "Result"]) -> None:
            progress.update(len(new))
            if new:
                found.update(new)
                _write(folder, study, found)

        if compute.engine == "local":
            failed = _queued(folder, study, missing, jobs, later, collect)
        else:
            failed = _spread(study, missing, compute, collect)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)


def _queued(
    folder: Path,
    study: "Study",
    missing: Mapping[str, tuple[str, int]],
    jobs: int,
    later: Collection[str],
    collect: Collect,
) -> list[str]:
    """By DVC's queue; the names of those that failed, and how to see why."""
    from coevolve.readers.queue import work

    def ended(names: Sequence[str]) -> list[str]:
        new = _finished(folder, study, [missing[name] for name in names])
        collect(new)
        return [_name(folder, *run) for run in new]

    wanted = {name: {"seed": seed, **study.arms[arm]} for name, (arm, seed) in missing.items()}
    failed = work(wanted, jobs, ended, later)
    return [*failed[:-1], f"{failed[-1]}; `dvc queue logs NAME` says why"] if failed else []


def _spread(study: "Study", missing: Mapping[str, tuple[str, int]], compute: "Compute", collect: Collect) -> list[str]:
    """By the machines of a cluster; those that failed, and why."""
    from coevolve.core.arithmetic import arithmetic_fingerprint
    from coevolve.core.outcomes import OUTCOMES
    from coevolve.core.paths import Paths
    from coevolve.core.workers import engine
    from coevolve.core.yaml_files import write_yaml
    from coevolve.readers.arms import departure, parameters
    from coevolve.readers.machines import PARAMS, Texts, work
    from coevolve.stages.report.run_summary import SUMMARY

    now, code = _params(), _commit()
    if other := departure(_params(code), now):
        raise CoevolveError(
            f"params.yaml is not committed ({other}), and results are told by commits; commit it, or `git stash`"
        )
    changes = {
        name: {**study.arms[arm], "seed": seed, "compute.engine": "local"} for name, (arm, seed) in missing.items()
    }
    wanted = {name: write_yaml(parameters(now, some)) for name, some in changes.items()}
    files = [PARAMS, str(SUMMARY), str(Paths.panel(study.panel)), str(Paths.evaluation(0).parent / "*" / OUTCOMES)]

    def ended(name: str, texts: Texts) -> None:
        collect({missing[name]: _result(texts, study, missing[name], name, code)})

    with engine(compute, arithmetic_fingerprint) as workers:
        assert workers is not None
        return work(wanted, workers, compute.cpus, files, ended)


def _commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def _write(folder: Path, study: "Study", found: dict[tuple[str, int], "Result"]) -> None:
    from coevolve.core.io import write_jsonl, write_text
    from coevolve.readers.study_results import draw, report, rows

    arms = list(study.arms)
    # results of other parameters stay in the file: they were dear, and parameters may change back
    others = [one for one in _read(folder) if one.arm in arms and (one.arm, one.seed) not in found]
    ordered = sorted([*found.values(), *others], key=lambda one: (one.seed, arms.index(one.arm)))
    results = [one for one in ordered if one.seed in study.seeds and (one.arm, one.seed) in found]
    if not results:
        return
    write_jsonl(folder / RESULTS, ordered)
    write_text(folder / "results.csv", rows(results))
    write_text(folder / "table.md", report(study, results))
    for name, figure in draw(study, results).items():
        write_text(folder / name, figure)
