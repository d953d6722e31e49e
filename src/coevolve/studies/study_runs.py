"""The runs of a study: those whose experiments are here, and those that its folder keeps."""

import json
import subprocess
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from dvc.api import DVCFileSystem

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, parse_jsonl, read_jsonl
from coevolve.core.outcomes import OUTCOMES, Outcome, solved
from coevolve.core.paths import Paths
from coevolve.core.task import Task
from coevolve.core.yaml_files import load_yaml, read_yaml
from coevolve.stages.report.run_summary import SUMMARY, Summary
from coevolve.studies.arms import departure, further, parameters
from coevolve.studies.study_results import Result, Study, cut, result, unplayed

RESULTS = "results.jsonl"

Run = tuple[str, int]  # an arm and a seed


def experiment(folder: Path, arm: str, seed: int) -> str:
    """The name of a run's DVC experiment."""
    return f"{folder.resolve().name}-{arm}-{seed}"


def exists(name: str) -> bool:
    """Whether the DVC experiment ``name`` is here."""
    return name in _baselines()


def finished(folder: Path, study: Study, runs: Collection[Run]) -> dict[Run, Result]:
    """The results of the experiments that exist and are complete."""
    found = {}
    code = _baselines()
    for arm, seed in runs:
        name = experiment(folder, arm, seed)
        try:
            files = DVCFileSystem(rev=name)
            files.read_text(str(SUMMARY))
        except Exception:  # the experiment does not exist or did not finish: DVC has many errors for that
            continue
        found[arm, seed] = from_files(files, study, (arm, seed), name, code.get(name, "unknown"))
    return found


def from_files(files: Any, study: Study, run: Run, name: str, code: str) -> Result:
    """The result of a run of the commit ``code``, read from its ``files``.

    Raises CoevolveError if the run's parameters or panels are not those of the study.
    """
    arm, seed = run
    again = f"remove it to run it again: `dvc exp remove {name}`"
    try:
        summary = parse(Summary, json.loads(files.read_text(str(SUMMARY))), f"{name}: {SUMMARY}")
    except (CoevolveError, ValueError) as error:
        raise CoevolveError(f"{error}; if other code made it, {again}") from None
    ran, committed = read_yaml(files.read_text("params.yaml"), f"{name}: params.yaml"), params(code)
    arm_changes = study.arms[arm]
    changes = {**arm_changes, **(further(parameters(committed, arm_changes), ran) if committed else {})}
    if other := departure(ran, parameters(params(), arm_changes), changes):
        raise CoevolveError(f"{name} ran with {other}, as its arm says now; {again}")
    if unseen := unplayed(study, summary.panels):
        raise CoevolveError(
            f"{name} evaluated {', '.join(summary.panels)}, but its study.yaml also names {', '.join(unseen)}; {again}"
        )
    if taken := sorted(study.subsets.keys() & set(summary.panels)):
        raise CoevolveError(f"subsets: {taken[0]} is the name of a panel; choose another")
    subsets = _subsets(files, study, summary.last) if study.subsets else None
    return result(arm, seed, summary, subsets, code, changes, study.cut)


def kept(folder: Path, study: Study) -> tuple[dict[Run, Result], list[str]]:
    """The results in RESULTS that are those of ``study`` as it is now, and a reason for each other result.

    RESULTS exists because experiments stay on the machine that ran them.
    """
    found, others = {}, []
    now, then = params(), cache(params)
    for one in stored(folder):
        if one.arm in study.arms:
            if other := _other(one, study, then(one.code), now):
                others.append(f"{one.arm} {one.seed} {other}")
            else:
                found[one.arm, one.seed] = one
    return found, others


def _other(one: Result, study: Study, committed: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Why the result is not one of ``study``; None if it is."""
    arm = study.arms[one.arm]
    if not committed and one.changes != arm:  # this clone lacks the commit, so only the changes are known
        return f"ran with {one.changes}, not {arm}"
    if committed and (other := departure(parameters(committed, one.changes), parameters(now, arm), one.changes)):
        return f"ran with {other}"
    if unseen := [*unplayed(study, list(one.success)), *(name for name in study.subsets if name not in one.success)]:
        return f"has no success on {', '.join(unseen)}"
    if study.cut and one.cut and study.cut != one.cut:
        return f"has other subsets: {one.cut}, not {study.cut}"
    return None


def stored(folder: Path) -> list[Result]:
    """All results in RESULTS."""
    return read_jsonl(folder / RESULTS, Result) if (folder / RESULTS).exists() else []


def params(code: str | None = None) -> dict[str, Any]:
    """The parameters of the commit ``code``, or of the working tree if None. Empty if this clone lacks the commit."""
    if code is None:
        return load_yaml(Path("params.yaml"), "run from the project's folder")
    # ./ because a project may be a folder of a repository
    shown = subprocess.run(["git", "show", f"{code or 'unknown'}:./params.yaml"], capture_output=True, text=True)
    found: dict[str, Any] = read_yaml(shown.stdout, f"{code}: params.yaml") if shown.returncode == 0 else {}
    return found


def _baselines() -> dict[str, str]:
    """The commit that each experiment builds on. DVC keeps it in the names of its references."""
    done = subprocess.run(["git", "for-each-ref", "--format=%(refname)", "refs/exps"], capture_output=True, text=True)
    parts = [line.split("/") for line in done.stdout.splitlines()]
    return {one[4]: one[2] + one[3] for one in parts if len(one) == 5}


def _subsets(files: Any, study: Study, last: int) -> dict[str, list[float]]:
    """Success of policies 0 to ``last`` on the subsets of the study's panel, from an experiment's ``files``."""

    def rows(path: Path, kind: type[Any]) -> list[Any]:
        return parse_jsonl(files.read_text(str(path)), kind, str(path))

    tasks = rows(Paths.panel(study.panel), Task)
    played = [rows(Paths.evaluation(t) / OUTCOMES, Outcome) for t in range(last + 1)]
    return cut(study.subsets, tasks, [solved(outcomes, study.panel) for outcomes in played])
