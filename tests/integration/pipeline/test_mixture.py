"""`dvc repro` with two environments: each has its share of every step, and tables of its own."""

from collections import Counter
from pathlib import Path

import pytest

from coevolve.core.io import read_json, read_jsonl, read_tasks
from coevolve.core.records import Candidate, Exploration, Signal, Verdict
from coevolve.core.trajectories import read_trajectories
from tests.project import Project, clone

GIVEN = {"miniworld": 0.75, "sql": 0.25}
NAMES = set(GIVEN)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Project:
    """A clone in which `dvc repro` has run once with both."""
    project = clone(tmp_path_factory.mktemp("both"), cache)
    project.set(environment=GIVEN, tasks__seed_tasks=32, explore__explorations=48, policy__episode_tokens=512)
    project.dvc("repro")
    return project


def test_every_stage_serves_both(both: Project) -> None:
    data = both.folder / "data"
    tasks = {task.task_id: task.environment for t in (0, 1) for task in read_tasks(data / f"{t}/tasks.jsonl")}
    assert Counter(task.environment for task in read_tasks(data / "0/tasks.jsonl")) == {"miniworld": 24, "sql": 8}
    played = read_trajectories(data / "0/trajectories.parquet")
    for step in {one.step for one in played}:
        groups = {one.group: tasks[one.task_id] for one in played if one.step == step and one.group < 4}
        assert Counter(groups.values()) == {"miniworld": 3, "sql": 1}, "of the four groups of a step"
    found = read_jsonl(data / "0/explorations.jsonl", Exploration)
    made = Counter(one.environment for one in found)
    assert set(made) == NAMES and made["miniworld"] <= 36 and made["sql"] <= 12, "of 48 that are looked for"
    assert all(tasks[one.task_id] == one.environment for one in found if one.task_id)
    verdicts = read_jsonl(data / "0/verified/verdicts.jsonl", Verdict)
    assert len(verdicts) <= 16 and any(one.accepted for one in verdicts)
    candidates = {one.candidate_id: one.task for one in read_jsonl(data / "0/candidates.jsonl", Candidate)}
    assert {task.environment for task in candidates.values()} == NAMES
    asked = {one.candidate_id for one in verdicts if [gate.passed for gate in one.gates].count(True) > 1}
    assert {candidates[name].environment for name in asked} == NAMES, "each is judged by its own environment"
    shown = {one.trajectory_id: tasks[one.task_id] for one in played}
    for signal in read_jsonl(data / "0/signals.jsonl", Signal):
        assert len({shown[name] for name in signal.trajectory_ids}) <= 1, "a weakness is of one environment"


def test_tables_are_of_all_and_of_each(both: Project) -> None:
    found = read_json(both.folder / "evaluations/1/metrics.json")
    assert {"validation", "validation.miniworld", "validation.sql"} <= set(found)
    for panel in ("validation", "test"):
        parts = [found[f"{panel}.{name}"] for name in sorted(NAMES)]
        assert found[panel]["tasks"] == sum(one["tasks"] for one in parts) == 8
        solved = sum(one["success"] * one["tasks"] for one in parts)
        assert found[panel]["success"] * found[panel]["tasks"] == pytest.approx(solved)
    episodes = read_json(both.folder / "data/1/summary/evaluate.json")["figures"]["evaluation episodes"]
    assert episodes == sum(one["episodes"] for name, one in found.items() if "." not in name), "none is played twice"
    said = both.run("coevolve", "summary").stdout
    assert "0.75*miniworld+0.25*sql" in said and "validation.sql" in said


def test_a_mixture_that_cannot_be_is_one_line(both: Project) -> None:
    for given, said in (
        ({"miniworld": 0.5, "sql": 0.4}, "the shares sum to 0.9"),
        ({"miniworld": 0.5, "nowhere": 0.5}, "'nowhere' is unknown"),
        ({"miniworld": "much", "sql": 0.5}, "could not convert"),
    ):
        both.set(environment=given)
        done = both.stage("tasks", check=False)
        assert done.returncode == 1 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    both.set(environment=GIVEN)
