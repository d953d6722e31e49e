"""`dvc repro` with a task generator: it writes specs, the environment judges them, and it learns from their outcomes."""

from pathlib import Path

import pytest

from coevolve.core.io import read_json, read_jsonl, read_tasks
from coevolve.core.records import Generation
from coevolve.stages.generate.spec_outcomes import ACCEPTED
from tests.generator import hardly_trained
from tests.project import Project, clone
from tests.unit.stages.generate.small import TOOLS


@pytest.fixture(scope="module")
def generating(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Project:
    """A clone in which `dvc repro` has run once, over two iterations, with a small generator."""
    project = clone(tmp_path_factory.mktemp("generating"), cache)
    first = hardly_trained(TOOLS, tmp_path_factory.mktemp("generator"), 200)
    small = {"model": str(first), "steps": 2, "batch": 8, "save_steps": 1}
    project.set(
        iterations=[{"t": 0, "next": 1}, {"t": 1, "next": 2}],
        explore__guidance="generator",
        explore__explorations=48,
        synthesize__count=80,
        verify__pass_rate_samples=2,
        **{f"generate__{key}": value for key, value in small.items()},
    )
    project.dvc("repro")
    return project


def test_the_generator_learns_from_the_outcomes_of_its_specs(generating: Project) -> None:
    data = generating.folder / "data"
    for t in (0, 1):
        specs = read_jsonl(data / f"{t}/specs.jsonl", Generation)
        assert len(specs) == 48
        settled = read_jsonl(data / f"{t + 1}/generations.jsonl", Generation)
        assert [one.generation_id for one in settled[-len(specs) :]] == [one.generation_id for one in specs]
        assert all(one.outcome for one in settled)
        made = {one.task_id for one in settled if one.outcome == ACCEPTED}
        tasks = read_tasks(data / f"{t + 1}/tasks.jsonl", "miniworld")
        assert made and made <= {task.task_id for task in tasks}
        figures = read_json(data / f"{t}/summary/verify.json")["figures"]
        assert figures["distance to alpha"] is not None
        assert sum(count or 0 for name, count in figures.items() if name.startswith("specs: ")) == 48
    learned = read_json(data / "1/summary/generate.json")["figures"]
    assert learned["generator steps"] == 2 and learned["generations learned from"] >= 8
    folder = generating.folder / "generators"
    weights = [(folder / f"{t}/model/model.safetensors") for t in (1, 2)]
    assert weights[1].exists() and not weights[0].exists(), "a pointer, and what was learned"
    assert "up to date" in generating.dvc("status").stdout


def test_the_generator_is_registered_and_a_task_is_traced_to_what_wrote_it(generating: Project) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{generating.folder}/mlruns/mlflow.db")
    version = client.get_model_version("coevolve-generator", "1")
    assert version.tags["dvc.path"] == "generators/2"
    assert client.get_run(version.run_id).data.tags["coevolve.key"] == "generate/1"
    assert len(client.get_metric_history(version.run_id, "generator_spec_kl")) == 2
    settled = read_jsonl(generating.folder / "data/2/generations.jsonl", Generation)
    one = next(one for one in settled if one.outcome == ACCEPTED and one.iteration == 1)
    said = generating.run("coevolve", "lineage", one.task_id or "").stdout
    for part in (one.generation_id, one.prompt, one.text, "generators/2", one.seed):
        assert part in said
