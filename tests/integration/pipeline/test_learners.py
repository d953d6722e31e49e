"""`dvc repro` by both other methods at once: pairs come before training, and a task generator writes the specs of new tasks."""

from collections import Counter
from pathlib import Path

import pytest

from coevolve.core.io import read_json, read_jsonl, read_jsonl_objects, read_tasks
from coevolve.core.records import Generation, Pair
from coevolve.core.trajectories import read_trajectories
from coevolve.stages.generate.rewards import ACCEPTED
from tests.generator import hardly_trained
from tests.project import Project, clone
from tests.unit.stages.generate.small import TOOLS


@pytest.fixture(scope="module")
def preferring(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Project:
    """A clone in which `dvc repro` has run once with DPO, a failure agent and a small task generator."""
    project = clone(tmp_path_factory.mktemp("preferring"), cache)
    first = hardly_trained(TOOLS, tmp_path_factory.mktemp("generator"), 200)
    small = {"episodes": 24, "hard_episodes": 24, "closeness": 0.2, "steps": 2, "batch": 4}
    project.set(
        train__learner="dpo",
        explore__guidance="generator",
        explore__explorations=48,
        synthesize__count=80,
        verify__pass_rate_samples=2,
        generate__model=str(first),
        **{f"pairs__failure_agent__{key}": value for key, value in small.items()},
    )
    project.dvc("repro")
    return project


def test_pairs_precede_training_and_the_loop_completes(preferring: Project) -> None:
    folder = preferring.folder / "data/0"
    pairs = read_jsonl(folder / "pairs/pairs.jsonl", Pair)
    summary = read_json(folder / "summary/pairs.json")
    assert summary["figures"]["pairs"] == len(pairs) >= 8
    for kind, count in Counter(one.kind for one in pairs).items():
        assert summary["figures"][f"pairs: {kind}"] == count
    assert read_trajectories(folder / "trajectories.parquet") == read_trajectories(folder / "pairs/rehearsals.parquet")
    assert all("margin" in row for _, row in read_jsonl_objects(folder / "train_metrics.jsonl"))
    assert read_jsonl_objects(preferring.folder / "data/1/tasks.jsonl")
    assert "pairs" in preferring.run("coevolve", "summary").stdout
    assert (preferring.folder / "failures/1/model/model.safetensors").exists()
    assert "up to date" in preferring.dvc("status").stdout


def test_policy_is_traced_to_its_pairs(preferring: Project) -> None:
    pairs = read_jsonl(preferring.folder / "data/0/pairs/pairs.jsonl", Pair)
    said = preferring.run("coevolve", "lineage", "policies/1").stdout
    assert f"{len(pairs)} pairs: " in said and "which learned from" in said


def test_failure_agent_is_registered_and_its_steps_are_metrics(preferring: Project) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{preferring.folder}/mlruns/mlflow.db")
    version = client.get_model_version("coevolve-failure", "1")
    assert version.tags["dvc.path"] == "failures/1"
    run = client.get_run(version.run_id)
    assert run.data.tags["coevolve.key"] == "pairs/0" and "mlflow.parentRunId" in run.data.tags
    steps = client.get_metric_history(version.run_id, "failure_agent/margin")
    assert len(steps) == 2 and steps[0].value == 0.0


def test_pairs_are_exported_as_messages(preferring: Project, tmp_path: Path) -> None:
    preferring.run("coevolve", "export", "pairs", "--out", str(tmp_path / "pairs"))
    pairs = read_jsonl(preferring.folder / "data/0/pairs/pairs.jsonl", Pair)
    rows = [row for _, row in read_jsonl_objects(tmp_path / "pairs/train.jsonl")]
    assert [row["task_id"] for row in rows] == [one.task_id for one in pairs]
    card = (tmp_path / "pairs/README.md").read_text()
    assert f"# {len(pairs)} pairs in miniworld" in card and f"| {pairs[0].kind} | " in card
    for row in rows:
        assert [message["role"] for message in row["prompt"]] == ["user"]
        assert row["chosen"] != row["rejected"] and row["tools"]
        for side in (row["chosen"], row["rejected"]):
            assert side[0]["role"] == side[-1]["role"] == "assistant"


def test_the_outcome_of_each_spec_is_settled_and_a_task_is_traced_to_its_spec(preferring: Project) -> None:
    data = preferring.folder / "data"
    specs = read_jsonl(data / "0/specs.jsonl", Generation)
    settled = read_jsonl(data / "1/generations.jsonl", Generation)
    assert len(specs) == 48 and [one.generation_id for one in settled] == [one.generation_id for one in specs]
    assert all(one.outcome for one in settled)
    kept = {task.task_id for task in read_tasks(data / "1/tasks.jsonl")}
    accepted = [one for one in settled if one.outcome == ACCEPTED]
    made = [one for one in accepted if one.task_id in kept]
    assert made and all(one in made for one in accepted if one.successes), (
        "only tasks that are never solved are left out"
    )
    figures = read_json(data / "0/summary/verify.json")["figures"]
    assert figures["distance to alpha"] is not None
    assert sum(count or 0 for name, count in figures.items() if name.startswith("specs: ")) == 48
    assert not (preferring.folder / "generators/1/model/model.safetensors").exists(), "a pointer"
    said = preferring.run("coevolve", "lineage", made[0].task_id or "").stdout
    for part in (made[0].generation_id, made[0].prompt, made[0].text, "generators/1", made[0].seed):
        assert part in said
