"""The start of a run says when the environment has fewer tasks than asked for."""

from coevolve.environments.registry import make
from coevolve.stages.tasks.config import Tasks
from coevolve.stages.tasks.stage import start


def test_split_with_too_few_tasks_is_noted() -> None:
    world = make("miniworld")
    offered = len(world.tasks("seed"))
    seed, notes = start(world, Tasks(seed_tasks=999_999), "validation")
    assert len(seed) == offered
    assert notes == [f"tasks.seed_tasks is 999999, but split seed of miniworld has {offered} tasks: all are used"]
    for count in (1, offered):
        seed, notes = start(world, Tasks(seed_tasks=count), "validation")
        assert len(seed) == count and notes == []
