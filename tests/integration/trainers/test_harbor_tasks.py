"""`coevolve export tasks --for harbor`: the world of a folder runs as its Dockerfile says, without the container."""

import asyncio
import json
import re
import shlex
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from coevolve.cli import parser
from coevolve.commands import export
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks
from coevolve.core.section import read_yaml
from coevolve.core.task import Task
from tests.integration.coevolve_environments.test_openenv import running
from tests.integration.trainers.test_served_tasks import GROWN
from tests.waiting import PATIENCE, free_port

TASKS = read_tasks(GROWN)


def exported(out: Path, environment: str = "miniworld") -> Path:
    words = ["--for", "harbor", "--tasks", str(GROWN), "--environment", environment, "--out", str(out)]
    assert export.run(parser(["export"]).parse_args(["export", "tasks", *words])) == 0
    return out


def test_each_task_is_a_folder_of_harbor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = exported(tmp_path / "tasks")
    assert capsys.readouterr().out == f"{folder}: 10 task folders: 10 tasks of miniworld\n"
    for task in TASKS:
        place = folder / task.task_id
        settings = tomllib.loads((place / "task.toml").read_text())
        assert settings["task"]["name"] == f"coevolve/{task.task_id}"
        (server,) = settings["environment"]["mcp_servers"]
        assert server["url"] == "http://world:8000/mcp" and server["transport"] == "streamable-http"
        assert (place / "instruction.md").read_text().startswith(task.turns[0])
        seen = [file.read_text() for file in place.rglob("*") if file.is_file() and "world" not in file.parts]
        tokens = re.findall(r"Bearer (\w+)", (place / "tests/test.sh").read_text())
        services = read_yaml((place / "environment/docker-compose.yaml").read_text())["services"]
        assert [services["world"]["environment"]["COEVOLVE_TOKEN"]] == tokens
        assert sum(task.task_id in text for text in seen) == 1, "only task.toml names the task"


def post(url: str, body: str) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, body.encode()), timeout=PATIENCE) as answer:
        return json.load(answer)


def rewarded(url: str, token: str) -> float:
    request = urllib.request.Request(f"{url}/reward", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return float(json.load(answer)["reward"])


async def played(url: str, task: Task) -> list[Any]:
    """The answers of the world to an MCP client that plays all calls but the last."""
    from mcp import Client

    async with Client(f"{url}/mcp") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert set(task.tools) <= names
        refused = await client.call_tool(task.calls[0].name, {"nothing": 1})
        return [refused, *[await client.call_tool(one.name, one.arguments) for one in task.calls[:-1]]]


def test_world_plays_by_mcp_and_tells_the_reward_to_the_verifier_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, port = exported(tmp_path / "tasks"), free_port()
    task = max(TASKS, key=lambda task: len(task.calls))
    place = folder / task.task_id
    (started,) = re.findall(r"CMD (\[.*\])", (place / "environment/world/Dockerfile").read_text())
    command = [*json.loads(started)[:-2], str(place / "environment/world/task.json"), str(port)]
    (token,) = re.findall(r"Bearer (\w+)", (place / "tests/test.sh").read_text())
    monkeypatch.setenv("COEVOLVE_TOKEN", token)
    url = f"http://127.0.0.1:{port}"
    with running([sys.executable, *command[1:]], port, tmp_path / "log"):
        answers = asyncio.run(played(url, task))
        assert answers[0].is_error and not any(answer.is_error for answer in answers[1:])
        assert rewarded(url, token) < 1.0
        solution = [shlex.split(line) for line in (place / "solution/solve.sh").read_text().splitlines()[1:]]
        assert len(solution) == len(task.calls)
        assert not post(f"{url}/call", solution[-1][solution[-1].index("-d") + 1])["error"]
        assert rewarded(url, token) == 1.0
        with pytest.raises(urllib.error.HTTPError, match="403"):
            rewarded(url, "guessed")


def test_environment_of_a_file_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(CoevolveError, match="the container of the world has no such file"):
        exported(tmp_path / "tasks", "coevolve_environments.miniworld.miniworld_environment:Miniworld")
    assert not (tmp_path / "tasks").exists()
