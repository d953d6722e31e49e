"""A git repository behind MCP's reference server (`pip install mcp-server-git`): stage, commit, branch, switch."""

import os
import subprocess
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from coevolve.core.task import Task, ToolCall
from coevolve.environments.methods import Question
from coevolve_environments.mcp_tools import McpEnvironment, McpServer

FILES = ("notes.txt", "todo.txt", "plan.md", "readme.md", "ideas.txt", "log.md")
BRANCHES = ("draft", "review", "fix", "release", "trial")
HERE = {"repo_path": "."}
PLAIN = {  # so that git writes the same on every machine, at any time
    "GIT_AUTHOR_DATE": "1767268800 +0000",
    "GIT_COMMITTER_DATE": "1767268800 +0000",
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@example.com",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "TZ": "UTC",
}


class Git(McpEnvironment):
    name = "mcp_git"
    license = "MIT"
    command = ("{python}", "-m", "mcp_server_git", "--repository", "{folder}")
    variables = PLAIN

    def questions(self, split: str) -> Iterable[Question]:
        place = ("seed", "validation", "test").index(split)
        for number, (file, branch) in enumerate(product(FILES, BRANCHES)):
            if number % 3 == place:
                world = {"changed": [file], "branches": [branch]}
                add = ToolCall("git_add", {**HERE, "files": [file]})
                said = f"{branch} {file.partition('.')[0]}"
                yield f"stage {file}", world, [add]
                yield f"commit {file} as '{said}'", world, [add, ToolCall("git_commit", {**HERE, "message": said})]
                yield f"go to {branch}", world, [ToolCall("git_checkout", {**HERE, "branch_name": branch})]
                new = {**HERE, "branch_name": f"{branch}-2", "base_branch": branch}
                yield f"make {branch}-2 from {branch}", world, [ToolCall("git_create_branch", new)]
                yield f"what is new in {file} ?", world, [ToolCall("git_diff_unstaged", HERE)]

    def begin(self, folder: Path, world: dict[str, Any]) -> None:
        _git(folder, "init", "-q", "-b", "main")
        for name in FILES:
            (folder / name).write_text(f"the first line of {name}\n")
        _git(folder, "add", ".")
        _git(folder, "commit", "-q", "-m", "begin")
        for name in world["branches"]:
            _git(folder, "branch", name)
        for name in world["changed"]:
            (folder / name).write_text(f"the first line of {name}\nand another one\n")

    def state(self, server: McpServer) -> Any:
        """The commit of each branch, the checked-out branch, and the staged changes."""
        branches = _git(server.folder, "for-each-ref", "--format=%(refname) %(objectname)")
        return [branches, _git(server.folder, "symbolic-ref", "HEAD"), _git(server.folder, "ls-files", "-s")]

    def category(self, task: Task) -> str:
        return task.reference[0][-1].name


def _git(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, **PLAIN}
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout
