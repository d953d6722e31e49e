"""Run the experiments of a study in DVC's queue, which starts the workers and keeps the logs."""

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from coevolve.core import programs
from coevolve.core.processes import VARIABLE, available
from coevolve.core.section import one_line


def parameters(params: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``params`` with ``changes``, which have dotted keys, as `dvc exp run -S` makes them: mappings are merged."""
    made = dict(params)
    for key, value in changes.items():
        name, _, rest = key.partition(".")
        inner = {rest: value} if rest else value
        old = made.get(name)
        made[name] = parameters(old if isinstance(old, dict) else {}, inner) if isinstance(inner, dict) else inner
    return made


def look() -> tuple[dict[str, str], int]:
    """The state of each experiment in DVC's queue (Queued, Running, Failed or Success), and how many workers there are."""
    from dvc.repo import Repo

    with Repo() as repo:
        queue = repo.experiments.celery_queue
        # a question to the workers, as `dvc queue status` asks, may end them: they read files that are not yet written
        workers = sum(_works(int(file.read_text())) for file in Path(queue.wdir).glob("dvc-exp-worker-*.pid"))
        return {task["name"]: task["status"] for task in queue.status()}, workers


def _works(process: int) -> bool:
    with suppress(psutil.Error):
        return "queue-worker" in psutil.Process(process).cmdline()
    return False


def work(wanted: Mapping[str, Mapping[str, Any]], jobs: int, queue: Mapping[str, str]) -> None:
    """Queue the experiments ``wanted``, which are changes to params.yaml by name, and start at most ``jobs`` of DVC's workers.

    Each worker has its share of the cores. Earlier tasks of these names leave the ``queue``, which is that of `look`; none of them
    has a worker.
    """
    if lost := [name for name in wanted if queue.get(name) == "Running"]:
        print(f"no worker runs {', '.join(lost)} any more: begun again", file=sys.stderr)
        programs.dvc("queue", "kill", "--force", *lost)
    if ended := [name for name in wanted if name in queue]:
        programs.dvc("queue", "remove", *ended)
    for name, changes in wanted.items():
        settings = [part for key, value in changes.items() for part in ("-S", f"++{key}={one_line(value, quoted)}")]
        programs.dvc("exp", "run", "--queue", "-n", name, *settings)
    path = os.pathsep.join([os.environ.get("PATH", ""), os.path.dirname(sys.executable)])  # DVC starts `dvc`
    variables = {"PATH": path, VARIABLE: str(max(available() // jobs, 1))}
    programs.dvc("queue", "start", "-j", str(jobs), variables=variables)


def quoted(text: str) -> str:
    """``text`` in Hydra's grammar: a backslash is literal, except before a quote or at the end."""
    return '"' + re.sub(r'(\\*)("|\Z)', lambda match: match[1] * 2 + (match[2] and '\\"'), text) + '"'
