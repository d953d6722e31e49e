"""Tasks as Harbor task folders. The world is a service beside the agent's container, and the verifier asks it for the reward."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from coevolve import __version__
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import write_json, write_text
from coevolve.core.task import Task
from coevolve.environments.environment import Environment

SETTINGS = """\
schema_version = "1.4"

[task]
name = "coevolve/{name}"

[[environment.mcp_servers]]
name = "world"
transport = "streamable-http"
url = "http://world:8000/mcp"
"""

COMPOSE = """\
services:
  main:
    depends_on:
      world:
        condition: service_healthy
  world:
    build: ./world
    environment:
      COEVOLVE_TOKEN: {token}
    healthcheck:
      test: ["CMD", "python", "-c", "import socket; socket.create_connection(('127.0.0.1', 8000))"]
      interval: 2s
      retries: 30
"""

AGENT = """\
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends curl && rm -rf /var/lib/apt/lists/*
"""

WORLD = """\
FROM python:3.11-slim
RUN pip install --no-cache-dir "coevolve[mcp]>={version}"
COPY task.json /task.json
CMD ["python", "-m", "coevolve.trainers.harbor_world", {environment}, "/task.json", "8000"]
"""

VERIFY = """\
#!/bin/sh
curl -sf -H 'Authorization: Bearer {token}' http://world:8000/reward > /logs/verifier/reward.json
"""


def harbor(tasks: Sequence[Task], environment: Environment, name: str, folder: Path) -> str:
    """A folder for each task, in Harbor's format 1.4."""
    if ":" in name:
        raise CoevolveError(
            f"--environment {name}: the container of the world has no such file; give the environment a name by an entry point "
            "of a package that the container installs (`coevolve env new`)"
        )
    for task in tasks:
        _write(task, name, folder / task.task_id)
    return f"{len(tasks)} task folders"


def _write(task: Task, name: str, folder: Path) -> None:
    # nobody can guess it without the reference, and the same task gives the same bytes
    token = content_hash(["reward", asdict(task)])
    write_text(folder / "task.toml", SETTINGS.format(name=task.task_id))
    write_text(folder / "instruction.md", f"{task.turns[0]}\n\nUse the tools of the MCP server `world`.\n")
    write_text(folder / "environment/Dockerfile", AGENT)
    write_text(folder / "environment/docker-compose.yaml", COMPOSE.format(token=token))
    world = WORLD.format(version=__version__, environment=json.dumps(name))
    write_text(folder / "environment/world/Dockerfile", world)
    write_json(folder / "environment/world/task.json", asdict(task))
    write_text(folder / "tests/test.sh", VERIFY.format(token=token))
    calls = [json.dumps(asdict(call), ensure_ascii=False) for call in task.calls]
    lines = [f"curl -sf -X POST -d {shlex.quote(call)} http://world:8000/call" for call in calls]
    write_text(folder / "solution/solve.sh", "\n".join(["#!/bin/sh", *lines, ""]))
