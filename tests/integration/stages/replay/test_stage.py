"""policies/0 plays a split once, and every iteration clones its successes."""

import json
from pathlib import Path

from coevolve.core.paths import Paths
from coevolve.core.success import is_success
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.registry import make
from coevolve.stages.replay.stage import tasks_of
from tests.project import clone


def test_successes_on_the_split_are_cloned(tmp_path: Path) -> None:
    project, world = clone(tmp_path), make("miniworld")
    project.set(train__replay={"share": 0.25, "split": "board"})
    said = project.dvc("repro", "tasks", check=False).stderr
    assert "train.replay.split: 'board' is not a training split of miniworld; expected one of: seed, broad" in said
    project.set(train__replay={"share": 0.25, "split": "broad"})
    project.dvc("repro", "train@0")
    kept = read_trajectories(tmp_path / Paths.replay)
    offered = {task.task_id for task in tasks_of(world, "broad")}
    assert kept and all(episode.task_id in offered and is_success(episode.score) for episode in kept)
    summary = json.loads((tmp_path / Paths.summary(0, "replay")).read_text())
    assert summary["figures"]["replay episodes"] == len(offered) > len(kept)
    assert summary["notes"] == []
    policy = (tmp_path / "policies/1/model.safetensors").read_bytes()
    project.set(train__replay={"share": 0.0, "split": "broad"})
    project.dvc("repro", "train@0")
    assert read_trajectories(tmp_path / Paths.replay) == []
    assert (tmp_path / "policies/1/model.safetensors").read_bytes() != policy


def test_replayed_tasks_are_in_no_panel() -> None:
    world = make("miniworld")
    panels = {task.task_id for panel in world.panels for task in world.tasks(panel)}
    assert not panels & {task.task_id for task in tasks_of(world, "broad")}
