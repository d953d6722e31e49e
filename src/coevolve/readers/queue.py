"""DVC's queue of experiments, kept going until each of them has ended."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import VARIABLE, available
from coevolve.core.yaml_files import one_line

POLL = 2.0, 10.0  # seconds between looks at the queue: at first, and after a while
PATIENCE = 15.0  # seconds with too few workers before others are started: a worker may be slow to start
STARTS = 3  # of workers, without an experiment that ends in between
WAITING = ("Queued", "Running")
STATES = (*WAITING, "Failed", "Success")


@dataclass(frozen=True, slots=True)
class _Row:
    """A task of the queue; an experiment that was queued twice has two."""

    id: str
    name: str
    status: str


def work(
    wanted: Mapping[str, Mapping[str, Any]],
    jobs: int,
    collect: Callable[[Sequence[str]], Collection[str]],
    later: Collection[str] = (),
) -> list[str]:
    """Run the experiments ``wanted`` (changes of params.yaml by name), ``jobs`` at once; returns the names of those that failed.

    Those that are queued already are not queued again, and those of ``later`` that wait in the queue are taken out of it: an earlier
    call may have left them there, before ours. ``collect`` is told at each look which have succeeded and answers
    which of them it has. DVC's workers may end early (the queue is files, and a look at it can trip a worker), with a
    task of theirs: workers are started and tasks queued again until each has ended, or until that does not help
    (``CoevolveError``). An experiment that fails is tried once more: two that share stages may trip each other, as DVC's run cache
    takes the file that one is writing for a corrupted one of its own, and removes it. Ctrl-C stops the workers.
    """
    left = dict(wanted)
    if waiting := [row.id for row in _look()[0] if row.status == "Queued" and row.name in later]:
        _dvc("queue", "remove", *waiting)
    past = _start(left, jobs)
    starts, began = 0, time.monotonic()
    short_since: float | None = None
    tried: set[str] = set()  # once more
    try:
        while True:
            rows, alive = _look()
            status = {row.name: row.status for row in rows if row.id not in past}
            ended = collect([name for name in left if status.get(name) == "Success"])
            left = {name: changes for name, changes in left.items() if name not in ended}
            again = {name: left[name] for name in left if status.get(name) == "Failed" and name not in tried}
            if again:
                tried.update(again)
                past |= _start(again, jobs)
                continue
            going = {name: changes for name, changes in left.items() if status.get(name) != "Failed"}
            if not going:
                return list(left)
            found = [status.get(name) for name in going]
            lost = any(one not in WAITING for one in found)
            needed = jobs if "Queued" in found else 1
            now = time.monotonic()
            short_since = (short_since or now) if lost or alive < needed else None
            starts = 0 if ended else starts
            if short_since and now - short_since >= PATIENCE:
                if starts == STARTS:
                    raise CoevolveError(f"DVC's workers end before {', '.join(going)}; see `dvc queue status`")
                past |= _start(going, jobs)
                starts, short_since = starts + 1, None
            time.sleep(min(POLL[0] + (now - began) / 20, POLL[1]))
    except KeyboardInterrupt:
        _dvc("queue", "stop", "--kill")
        raise


def _start(wanted: Mapping[str, Mapping[str, Any]], jobs: int) -> set[str]:
    """Queue those of ``wanted`` that nobody is at and start workers; returns the ids of their tasks that are over."""
    rows, alive = _look()
    # a machine that went down leaves tasks that DVC holds for running, for ever
    dead = {row.id for row in rows if row.status == "Running" and not alive}
    if dead:
        _dvc("queue", "kill", "--force", *sorted(dead))
    waiting = {row.name for row in rows if row.status in WAITING and row.id not in dead}
    for name, changes in wanted.items():
        if name not in waiting:
            settings = [part for key, value in changes.items() for part in ("-S", f"++{key}={override(value)}")]
            _dvc("exp", "run", "--queue", "-n", name, *settings)
    # not captured: the workers would hold the pipe open until the last task has ended
    command = [sys.executable, "-m", "dvc", "queue", "start", "-j", str(jobs)]
    shared = {VARIABLE: str(max(available() // jobs, 1))}  # the cores, among the experiments at once
    subprocess.run(
        command, env={**os.environ, **shared}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return {row.id for row in rows if row.name in wanted and (row.id in dead or row.status not in WAITING)}


def _look() -> tuple[list[_Row], int]:
    """The tasks that `dvc queue status` shows, and how many workers there are."""
    rows = []
    for line in _dvc("queue", "status").splitlines():
        words = line.split()
        status = next((word for word in words if word in STATES), None)
        if status and len(words) > 2:
            rows.append(_Row(words[0], words[1], status))
    return rows, workers(Path.cwd())


def workers(folder: Path) -> int:
    """How many workers of the queue of ``folder`` there are, by their processes: DVC asks them, and a busy one does not answer
    in time. Taken for dead, it would get a twin, and lose its task.
    """
    found = set()
    for one in psutil.process_iter(["cwd", "cmdline", "status"]):
        words = one.info["cmdline"] or []
        alive = one.info["status"] != psutil.STATUS_ZOMBIE
        if alive and "queue-worker" in words and one.info["cwd"] == str(folder.resolve()):
            found.add(words[words.index("queue-worker") + 1])  # its name
    return len(found)


def override(value: Any) -> str:
    """A value of params.yaml, as `dvc exp run -S` reads that very value: in Hydra's grammar, every text in quotes."""
    return one_line(value, _quoted)


def _quoted(text: str) -> str:
    # a backslash stands for itself, except before a quote or at the end
    return '"' + re.sub(r'(\\*)("|\Z)', lambda match: match[1] * 2 + (match[2] and '\\"'), text) + '"'


def _dvc(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "dvc", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CoevolveError(
            f"dvc {' '.join(arguments[:3])}: {reason[-1] if reason else 'failed'}; run it by hand to see more"
        )
    return done.stdout
