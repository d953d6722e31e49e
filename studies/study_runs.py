"""The runs of a study: those whose experiments are here, and those that its folder keeps."""

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, parse_jsonl, read_jsonl
from coevolve.core.outcomes import OUTCOMES, Outcome, solved
from coevolve.core.paths import Paths
from coevolve.core.programs import git
from coevolve.core.section import dotted, load_yaml, read_yaml
from coevolve.core.task import Task
from coevolve.stages.report.run_summary import SUMMARY, Summary
from studies.run_queue import parameters
from studies.study_results import Result, Study, cut, result

RESULTS = "results.jsonl"
APART = {"seed", "compute", "watch", "report", "tracking"}  # sections that cannot change a policy, and the seed

Run = tuple[str, int]  # an arm and a seed


def experiment(folder: Path, arm: str, seed: int) -> str:
    """The name of a run's DVC experiment."""
    return f"{folder.resolve().name}-{arm}-{seed}"


def finished(folder: Path, study: Study, runs: Collection[Run]) -> dict[Run, Result]:
    """The results of those ``runs`` whose experiments exist and are complete.

    Raises CoevolveError if an experiment ran with other parameters than its arm has now.
    """
    from dvc.api import DVCFileSystem

    found = {}
    shown = git("for-each-ref", "--format=%(refname)", "refs/exps").splitlines()
    parts = [line.split("/") for line in shown]
    code = {one[4]: one[2] + one[3] for one in parts if len(one) == 5}  # the commit that each experiment builds on
    for arm, seed in runs:
        name = experiment(folder, arm, seed)
        try:
            files = DVCFileSystem(rev=name)
            text = files.read_text(str(SUMMARY))
        except Exception:  # the experiment does not exist or did not finish: DVC has many errors for that
            continue
        ran = read_yaml(files.read_text("params.yaml"), f"{name}: params.yaml")
        if other := departure(ran, parameters(params(), study.arms[arm])):
            again = f"to run it again, remove it: `dvc exp remove {name}`"
            raise CoevolveError(f"{name} ran with {other}, as its arm says now; {again}")
        summary = parse(Summary, json.loads(text), f"{name}: {SUMMARY}")
        subsets = _subsets(files, study, summary.last) if study.subsets else {}
        found[arm, seed] = result(study, (arm, seed), summary, subsets, code.get(name, "unknown"))
    return found


def kept(folder: Path, study: Study) -> tuple[dict[Run, Result], list[str]]:
    """The results in RESULTS that are those of ``study`` as it is now, and a reason for each other result.

    RESULTS exists because experiments stay on the machine that ran them. Results of an ended study belong to their arms.
    """
    found, others = {}, []
    now, then = params(), cache(params)
    for one in stored(folder):
        if one.arm not in study.arms:
            continue
        arm, other = study.arms[one.arm], None
        if not study.ended and one.changes != arm:
            other = f"{one.changes}, not {arm}"
        elif not study.ended and study.cut not in ({}, one.cut):
            other = f"other subsets: {one.cut}, not {study.cut}"
        elif not study.ended:
            other = departure(parameters(then(one.code), one.changes), parameters(now, arm), shared=True)
        if other:
            others.append(f"{one.arm} {one.seed} ran with {other}")
        else:
            found[one.arm, one.seed] = one
    return found, others


def stored(folder: Path) -> list[Result]:
    """All results in RESULTS."""
    return read_jsonl(folder / RESULTS, Result) if (folder / RESULTS).exists() else []


def params(code: str | None = None) -> dict[str, Any]:
    """The parameters of the commit ``code``, or of the working tree if None. Empty if this clone lacks the commit."""
    if code is None:
        return load_yaml(Path("params.yaml"), "run from the project's folder")
    text = git("show", f"{code or 'unknown'}:./params.yaml")  # ./ because a project may be a folder of a repository
    return dict(read_yaml(text, f"{code}: params.yaml") or {})


def departure(ran: Mapping[str, Any], arm: Mapping[str, Any], shared: bool = False) -> str | None:
    """The first key with other values in ``ran``, and both values. ``shared`` leaves out keys that one side lacks."""
    one, other = (dotted({key: params[key] for key in params.keys() - APART}) for params in (ran, arm))
    for key in sorted(one.keys() & other.keys() if shared else one.keys() | other.keys()):
        if (value := one.get(key, "absent")) != (expected := other.get(key, "absent")):
            return f"{key} {value}, not {expected}"
    return None


def _subsets(files: Any, study: Study, last: int) -> dict[str, list[float]]:
    """Success of policies 0 to ``last`` on the subsets of the study's panel, from an experiment's ``files``."""

    def rows(path: Path, kind: type[Any]) -> list[Any]:
        return parse_jsonl(files.read_text(str(path)), kind, str(path))

    tasks = rows(Paths.panel(study.panel), Task)
    played = [rows(Paths.evaluation(t) / OUTCOMES, Outcome) for t in range(last + 1)]
    return cut(study.subsets, tasks, [solved(outcomes, study.panel) for outcomes in played])
