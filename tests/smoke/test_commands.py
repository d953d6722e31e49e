"""One command of each group of `coevolve --help`, in a project whose loop has run."""

import json
from pathlib import Path

from coevolve.cli import GROUPS
from tests.project import Project

TRIED = {
    "daily": ("lineage", "policies/1"),
    "data": ("export", "tasks"),
    "environments": ("env", "list"),
    "models": ("evaluate", "--policy", "policies/1", "--tasks", "2"),
    "for other programs": ("stage", "--help"),
}


def test_every_group_has_a_command_that_is_tried() -> None:
    assert {group: set(commands) & {TRIED[group][0]} for group, commands in GROUPS.items()} == {
        group: {command[0]} for group, command in TRIED.items()
    }


def test_one_command_of_each_group_works(project: Project, tmp_path: Path) -> None:
    ran = {
        group: project.run("coevolve", *command, *options(group, tmp_path)).stdout for group, command in TRIED.items()
    }
    assert "policies/0" in ran["daily"], "the policy's parent"
    exported = (tmp_path / "tasks").rglob("*.jsonl")
    assert sum(len(file.read_text().splitlines()) for file in exported) >= 8
    assert "miniworld" in ran["environments"]
    outcomes = [json.loads(line) for line in (tmp_path / "outcomes.jsonl").read_text().splitlines()]
    assert outcomes and all("task_id" in outcome for outcome in outcomes)
    assert "usage: coevolve stage" in ran["for other programs"]


def options(group: str, folder: Path) -> list[str]:
    """Where the commands write."""
    return {
        "data": ["--out", str(folder / "tasks")],
        "models": ["--environment", "miniworld", "--out", str(folder / "outcomes.jsonl")],
    }.get(group, [])
