"""The real `dvc repro` of the whole loop in a small configuration. The tests share one clone and run in order."""

import hashlib
import json
import shutil
from pathlib import Path

import yaml

from tests import POLICY
from tests.project import Project

LOOP = ("pairs", "train", "signals", "generate", "explore", "synthesize", "verify", "validate", "evaluate")


def stages(project: Project) -> list[str]:
    return [line.split()[0] for line in project.dvc("stage", "list").stdout.splitlines()]


def ran(output: str) -> list[str]:
    return [line.split("'")[1] for line in output.splitlines() if line.startswith("Running stage '")]


def hashes(folder: Path, names: list[str]) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


OUTPUTS = [
    "policies/1/model.safetensors",
    "data/0/trajectories.parquet",
    "data/0/signals.jsonl",
    "data/0/explorations.jsonl",
    "data/0/candidates.jsonl",
    "data/0/verified/verdicts.jsonl",
    "data/0/indicators.jsonl",
    "data/1/tasks.jsonl",
    "data/1/attempts.jsonl",
    "evaluations/1/outcomes.jsonl",
]


def test_loop_has_all_its_stages(project: Project) -> None:
    before = ["code", "base", "warm", "tasks", "generator", "replay", "evaluate_base"]
    assert stages(project) == [*before, *(f"{stage}@0" for stage in LOOP), "report"]


def test_a_run_leaves_git_a_new_dvc_lock_and_nothing_else(project: Project) -> None:
    assert project.run("git", "status", "--porcelain").stdout == "?? dvc.lock\n"
    shipped = POLICY / "model.safetensors"
    assert (project.folder / "policies/base" / shipped.name).read_bytes() == shipped.read_bytes()


def test_no_output_is_empty_so_dvc_warns_of_none(project: Project) -> None:
    locked = yaml.safe_load((project.folder / "dvc.lock").read_text())["stages"].values()
    outs = [project.folder / out["path"] for stage in locked for out in stage["outs"]]
    assert len(outs) > 30
    assert [out for out in outs if not (any(out.iterdir()) if out.is_dir() else out.stat().st_size)] == []


def test_accepted_tasks_join_the_next_dataset(project: Project) -> None:
    summary = json.loads((project.folder / "report/summary.json").read_text())
    assert summary
    old = (project.folder / "data/0/tasks.jsonl").read_text().splitlines()
    new = (project.folder / "data/1/tasks.jsonl").read_text().splitlines()
    assert set(old) <= set(new)
    accepted = (project.folder / "data/0/verified/accepted.jsonl").read_text().splitlines()
    assert len(new) <= len(old) + len(accepted)


def test_report_page_exists_and_experiments_link_to_mlflow(project: Project) -> None:
    page = (project.folder / "report/index.html").read_text()
    assert "Read trajectories" in page and 'class="group"' in page
    summary = json.loads((project.folder / "report/summary.json").read_text())
    shown = project.dvc("exp", "show", "--json", "--no-pager").stdout
    assert summary["run"] in shown  # a column of `dvc exp show`, and a tag of the run
    header = project.dvc("exp", "show", "--csv", "--no-pager", "--drop", ".*/.*").stdout.splitlines()[0].split(",")
    dotted = [name for name in header if "." in name]
    assert dotted[0].startswith("success."), "success comes before parameters and files"
    code = (
        "from mlflow import MlflowClient; c = MlflowClient('sqlite:///mlruns/mlflow.db'); "
        "print([r.data.tags['git.commit'] for r in c.search_runs(['1'], \"tags.`coevolve.run` = '%s'\")])"
    )
    found = project.run("python", "-c", code % summary["run"]).stdout
    assert project.run("git", "rev-parse", "HEAD").stdout.strip() in found


def test_checkout_restores_exactly_the_same_data(project: Project) -> None:
    before = hashes(project.folder, OUTPUTS)
    for name in ("data", "policies/1", "evaluations", "report"):
        shutil.rmtree(project.folder / name)
    project.dvc("checkout")
    assert hashes(project.folder, OUTPUTS) == before
    assert (project.folder / "report/index.html").exists()


def test_second_repro_runs_nothing(project: Project) -> None:
    assert ran(project.dvc("repro").stdout) == []
