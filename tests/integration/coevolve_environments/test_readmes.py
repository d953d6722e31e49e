"""The README of each environment: the tasks that it shows exist, and their references succeed."""

import json
import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from coevolve.core.code_closure import SOURCE
from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.trainers.replay import refusal

READMES = sorted((SOURCE / "coevolve_environments").glob("*/README.md"))
SHOWN = 5
UNSHOWN = {"appworld", "openenv", "scienceworld", "tau2"}  # each README says why it shows no task


def row(environment: Environment, task: Task) -> str:
    """A task as a line of the table. A slash stands between the turns of a user."""
    calls = [call for turn in environment.reference(task) for call in turn]
    shown = [
        f"`{call.name}({', '.join(f'{key}={json.dumps(value)}' for key, value in call.arguments.items())})`"
        for call in calls
    ]
    return f"| {' / '.join(task.turns)} | {' '.join(shown)} |"


def environments(folder: Path) -> Iterator[Environment]:
    """The environments of a folder, as far as they are installed."""
    for point in entry_points(group="coevolve.environments"):
        if point.module.startswith(f"coevolve_environments.{folder.name}."):
            try:
                yield make(point.name)
            except CoevolveError as error:
                assert os.environ.get("COEVOLVE_REQUIRE_BFCL") is None or folder.name != "bfcl", error


@pytest.mark.parametrize("readme", READMES, ids=lambda readme: readme.parent.name)
def test_tasks_of_the_readme_exist_and_their_references_succeed(readme: Path) -> None:
    rows = [line for line in readme.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    assert len(rows) == (0 if readme.parent.name in UNSHOWN else SHOWN)
    known = {row(world, task): (world, task) for world in environments(readme.parent) for task in world.tasks("seed")}
    if not known:
        pytest.skip("not installed, or without tasks of its own")
    for line in rows:
        assert line in known, f"{readme}: no task of the training split is\n{line}"
        assert refusal(*known[line]) == "", line
