"""`coevolve export` and `import` in a project whose run is there, and decisions of reviewers."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from coevolve import read_run, signals
from coevolve.lineage.schemas import schemas
from tests import ROOT
from tests.project import Project


def newest(project: Project) -> int:
    """The last dataset, because other tests may have appended an iteration."""
    return max(int(file.parent.name) for file in (project.folder / "data").glob("*/tasks.jsonl"))


def test_run_is_exported_with_cards(project: Project, tmp_path: Path) -> None:
    said = {}
    for kind in ("tasks", "policy", "sft"):
        said[kind] = project.run("coevolve", "export", kind, "--out", str(tmp_path / kind)).stdout
    head, _, text = (tmp_path / "tasks/README.md").read_text().removeprefix("---\n").partition("---\n")
    card = yaml.safe_load(head)
    assert card["license"] == "apache-2.0" and card["configs"][0]["data_files"] == "tasks.jsonl"
    t = newest(project)
    last = project.folder / f"data/{t}/tasks.jsonl"
    count = last.read_text().count("\n")
    assert f"{count} tasks in miniworld" in text and "| seed |" in text and "| iteration 0 |" in text
    assert (tmp_path / "tasks/tasks.jsonl").read_bytes() == last.read_bytes()
    assert len((tmp_path / "sft/train.jsonl").read_text().splitlines()) == count
    head, _, text = (tmp_path / "sft/README.md").read_text().removeprefix("---\n").partition("---\n")
    assert yaml.safe_load(head) == {**card, "configs": [{"config_name": "default", "data_files": "train.jsonl"}]}
    assert f"{count} episodes in miniworld" in text and f"of dataset {t}" in text and "| complete_task | " in text
    model = (tmp_path / "policy/README.md").read_text()
    assert "Training data" in model and "| validation |" in model and "policies/0, hash" in model
    best = read_run(project.folder).summary.champion.policy
    assert f"policies/{best} and README.md\nChampion on validation: policies/{best}. " in said["policy"]
    weights = (project.folder / f"policies/{best}/model.safetensors").read_bytes()
    assert (tmp_path / "policy/model.safetensors").read_bytes() == weights


def test_card_names_the_run_of_any_dataset(project: Project, tmp_path: Path) -> None:
    run = read_run(project.folder).summary.run
    for words in (("tasks", "--iteration", "0"), ("sft", "--successes"), ("tasks",)):
        out = tmp_path / "-".join(words)
        project.run("coevolve", "export", *words, "--out", str(out))
        assert f"Run: {run}" in (out / "README.md").read_text(), words
    file = project.folder / "scratch/audits/miniworld/audit.json"
    project.run("coevolve", "env", "check", "miniworld", "--tasks", "1", check=False)
    audit = json.loads(file.read_text())
    file.write_text(json.dumps({**audit, "fingerprint": "an older miniworld"}))
    project.run("coevolve", "export", "tasks", "--out", str(tmp_path / "older"))
    file.unlink()
    assert "No audit of miniworld was found" in (tmp_path / "older/README.md").read_text()


def test_policy_export_needs_one_whole_run(project: Project, tmp_path: Path) -> None:
    export = ["coevolve", "export", "policy", "--out", str(tmp_path / "policy")]
    params, file = (project.folder / "params.yaml").read_text(), project.folder / "report/summary.json"
    project.set(seed=99)
    done = project.run(*export, check=False)
    assert "params.yaml: seed has changed since the run; run `dvc repro`" in done.stderr
    (project.folder / "params.yaml").write_text(params)
    text = file.read_text()
    try:  # as an interrupted `dvc repro` leaves it
        file.write_text(text.replace(json.loads(text)["run"], "0123456789abcdef"))
        reason = "report/summary.json is of run 0123456789abcdef, but data and policies here are not"
        assert reason in project.run(*export, check=False).stderr
        assert f"warning: {reason}" in project.run("coevolve", "lineage", "policies/1").stdout
    finally:
        file.write_text(text)
    project.run(*export)
    assert "warning" not in project.run("coevolve", "lineage", "policies/1").stdout


def test_finished_run_can_be_read_in_python(project: Project) -> None:
    run, t = read_run(project.folder), newest(project)
    assert len(run.policies) == len(run.datasets) == len(run.evaluations) == t + 1
    assert len(run.signals) == len(run.verdicts) == t
    assert all((policy / "config.json").is_file() for policy in run.policies)
    accepted = {verdict.task_id for verdict in run.verdicts[0] if verdict.accepted}
    assert {task.task_id for task in run.datasets[1] if task.provenance} <= accepted
    assert {outcome.panel for outcome in run.evaluations[0]} == set(run.summary.panels)
    assert signals(run.trajectories(0)) == run.signals[0]
    block = (ROOT / "docs/python.md").read_text().rpartition("```python\n")[2].partition("```")[0]
    exec(block.replace('"my-project"', repr(str(project.folder))), {})


def test_every_row_of_a_run_fits_its_schema(project: Project) -> None:
    run, folder = read_run(project.folder), project.folder / "data"
    rows = {
        "task": lines(folder.glob("*/tasks.jsonl")) + lines(folder.glob("panels/*.jsonl")),
        "candidate": lines(folder.glob("*/candidates.jsonl")),
        "signal": lines(folder.glob("*/signals.jsonl")),
        "verdict": lines(folder.glob("*/verified/verdicts.jsonl")),
        "trajectory": [json.loads(json.dumps(asdict(episode))) for episode in run.trajectories(0)],
    }
    known = schemas()
    for name, values in rows.items():
        assert values, name
        for value in values:
            Draft202012Validator(known[name]).validate(value)


def lines(files: Iterable[Path]) -> list[Any]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_mistakes_are_one_line_errors(project: Project, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for words, said in (
        (["export", "sft", "--out", str(there)], "already exists"),
        (["export", "tasks", "--successes", "--out", str(tmp_path / "a")], "--successes: works only with sft"),
        (["export", "policy", "--iteration", "9", "--out", str(tmp_path / "a")], f"expected 0 to {newest(project)}"),
        (["export", "pairs", "--out", str(tmp_path / "a")], "train.learner to dpo or sft"),
        (["import", "trl", str(there), "--out", str(tmp_path / "b")], "holds no rollouts"),
    ):
        done = project.run("coevolve", *words, check=False)
        assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1, (words, done.stderr)


def test_a_task_that_a_reviewer_rejects_is_not_in_the_next_dataset(project: Project) -> None:
    accepted = (project.folder / "data/0/verified/accepted.jsonl").read_text().splitlines()
    first, second = (json.loads(line)["task_id"] for line in accepted[:2])
    file = project.folder / "reviews/ada.jsonl"
    lines = ({"task_id": first, "decision": "reject"}, {"task_id": second, "decision": "accept"})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    try:
        project.dvc("repro", "validate@0")
        dataset = (project.folder / "data/1/tasks.jsonl").read_text()
        assert first not in dataset and second in dataset
    finally:
        file.unlink()
        project.dvc("repro", "validate@0")
