"""Run DVC's queue of experiments until each experiment has ended."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import VARIABLE, available
from coevolve.core.yaml_files import one_line

POLL = 2.0, 30.0  # seconds between checks of the queue, at first and later; a check takes two seconds of CPU time
PATIENCE = 15.0  # seconds with too few workers before others are started, because a worker may start slowly
STARTS = 3  # most starts of workers in a row without an experiment that ends
WAITING = ("Queued", "Running")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
WORDS = ("true", "false", "null", "inf", "nan")
STATES = (*WAITING, "Failed", "Success")


@dataclass(frozen=True, slots=True)
class _Row:
    """A task of the queue. An experiment that was queued twice has two tasks."""

    id: str
    name: str
    status: str


def work(
    wanted: Mapping[str, Mapping[str, Any]],
    jobs: int,
    collect: Callable[[Sequence[str]], Collection[str]],
    later: Collection[str] = (),
) -> list[str]:
    """Run the experiments ``wanted`` (changes to params.yaml by name), ``jobs`` at a time. Returns the names of failed experiments.

    Waiting experiments of ``later`` are removed from the queue, because an earlier call may have queued them before these. So are those
    of ``wanted``, to be queued with the changes that they have now. ``collect`` gets the names of successful experiments at each check, and returns those whose
    results it has.

    DVC's workers may end early, together with their task: the queue consists of files, and reading it can disturb a worker. So this
    function starts workers and queues tasks again until each has ended, or raises a CoevolveError if that does not help. A failed
    experiment is tried once more. Experiments that share stages may disturb each other: DVC's run cache can take a file that another
    experiment is writing for a corrupted file, and remove it. Ctrl-C ends these experiments, and the workers if they have no others.
    """
    left, jobs = dict(wanted), min(jobs, len(wanted))
    _remove({*wanted, *later})
    past = _start(left, jobs)
    starts, began = 0, time.monotonic()
    short_since: float | None = None
    tried: set[str] = set()  # failed experiments that were tried once more
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
        _end(wanted)
        raise


def _remove(names: Collection[str]) -> None:
    """Take the waiting experiments ``names`` from the queue."""
    if waiting := [row.id for row in _look()[0] if row.status == "Queued" and row.name in names]:
        _dvc("queue", "remove", *waiting)


def _end(names: Collection[str]) -> None:
    """End the experiments ``names``. Another study's may be in the same queue."""
    _remove(names)
    busy = [row for row in _look()[0] if row.status in WAITING]
    ours = [row.id for row in busy if row.name in names]
    if len(ours) == len(busy):
        _dvc("queue", "stop", "--kill")
    elif ours:
        _dvc("queue", "kill", "--force", *ours)


def _start(wanted: Mapping[str, Mapping[str, Any]], jobs: int) -> set[str]:
    """Queue the ``wanted`` experiments that neither wait nor run, and start workers. Returns the ids of their ended tasks."""
    rows, alive = _look()
    # after a crash of the machine, DVC keeps its tasks as running for ever
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
    shared = {VARIABLE: str(max(available() // jobs, 1))}  # divides the cores among the parallel experiments
    started = subprocess.run(
        command, env={**os.environ, **shared}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if started.returncode:
        raise CoevolveError("dvc queue start fails; run it by hand to see why")
    return {row.id for row in rows if row.name in wanted and (row.id in dead or row.status not in WAITING)}


def _look() -> tuple[list[_Row], int]:
    """The tasks that `dvc queue status` shows, and the number of workers."""
    rows = []
    for line in _dvc("queue", "status").splitlines():
        words = line.split()
        status = next((word for word in words if word in STATES), None)
        if status and len(words) > 2:
            rows.append(_Row(words[0], words[1], status))
    return rows, workers(Path.cwd())


def workers(folder: Path) -> int:
    """The number of workers of the queue of ``folder``, counted by their processes.

    DVC would ask the workers, and a busy worker does not answer in time. It would count as dead, and lose its task to a new worker.
    """
    found = set()
    for one in psutil.process_iter(["cwd", "cmdline", "status"]):
        words = one.info["cmdline"] or []
        alive = one.info["status"] != psutil.STATUS_ZOMBIE
        if alive and "queue-worker" in words and one.info["cwd"] == str(folder.resolve()):
            found.add(words[words.index("queue-worker") + 1])  # its name
    return len(found)


def override(value: Any) -> str:
    """A value of params.yaml as text for `dvc exp run -S`: in Hydra's grammar, with every text in quotes.

    Hydra's grammar cannot quote the keys of a mapping, so a key that is not ``settable`` is a CoevolveError.
    """
    if odd := [key for key in keys(value) if not settable(key)]:
        raise CoevolveError(f"{odd[0]!r} is not a key that `dvc exp run -S` can set; write it in params.yaml")
    return one_line(value, _quoted)


def keys(value: Any) -> Iterator[str]:
    """The keys of all mappings in a value of YAML."""
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from keys(inner)
    yield from value if isinstance(value, Mapping) else ()


def settable(key: str) -> bool:
    """Whether Hydra's grammar reads ``key`` as this text: letters, digits, _ - and ., but no word for another value."""
    return bool(KEY.fullmatch(key)) and key.lower() not in WORDS


def _quoted(text: str) -> str:
    # a backslash is literal, except before a quote or at the end
    return '"' + re.sub(r'(\\*)("|\Z)', lambda match: match[1] * 2 + (match[2] and '\\"'), text) + '"'


def _dvc(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "dvc", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise CoevolveError(
            f"dvc {' '.join(arguments[:3])}: {reason[-1] if reason else 'failed'}; run it by hand to see more"
        )
    return done.stdout
