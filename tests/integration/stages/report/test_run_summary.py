"""The results of a study name the edits of params.yaml that no commit has."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from fsspec import filesystem

from coevolve.core.io import write_jsonl
from coevolve.core.yaml_files import load_yaml
from coevolve.stages.report.run_summary import SUMMARY
from coevolve.stages.schema import Params
from coevolve.studies.arms import parameters
from coevolve.studies.study_results import Result, Study
from coevolve.studies.study_runs import RESULTS, from_files, kept
from tests import ROOT
from tests.unit.stages.report.test_run_summary import params, run, summed  # noqa: F401  (fixtures)


def test_result_lists_uncommitted_edits(
    run: Path,  # noqa: F811
    params: Params,  # noqa: F811
) -> None:
    """The result of a run with a commit's params.yaml, its arm's changes, and uncommitted edits."""
    arms: dict[str, dict[str, Any]] = {"random": {"explore.guidance": "random"}}
    study = Study(question="Why?", seeds=[0], panel="validation", against=[], arms=arms)
    committed = load_yaml(ROOT / "params.yaml", "the project's")
    Path("params.yaml").write_text(yaml.safe_dump(committed))
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (["init", "-q"], ["add", "params.yaml"], [*who, "commit", "-q", "-m", "a"]):
        subprocess.run(["git", *words], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    summary = json.dumps(asdict(summed(params)))

    def found(edits: dict[str, Any]) -> Result:
        ran = parameters(committed, {**arms["random"], **edits, "seed": 0})
        Path("params.yaml").write_text(yaml.safe_dump(parameters(committed, edits)))
        Path("run", SUMMARY).parent.mkdir(parents=True, exist_ok=True)
        Path("run", SUMMARY).write_text(summary)
        Path("run/params.yaml").write_text(yaml.safe_dump(ran))
        files = filesystem("dir", path="run", fs=filesystem("file"))
        return from_files(files, study, ("random", 0), "small-random-0", head)

    assert found({}).changes == arms["random"]
    edits = {"train.steps": 40, "signals.window": 7}
    assert found(edits).changes == {**arms["random"], **edits}
    write_jsonl(Path(RESULTS), [found(edits)])
    assert not kept(Path(), study)[1], "the edits are still there"
    Path("params.yaml").write_text(yaml.safe_dump(committed))
    assert kept(Path(), study) == ({}, ["random 0 ran with signals.window 7, not 5"])
