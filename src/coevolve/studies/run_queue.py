"""Run experiments by DVC's queue, and collect each one when it has ended."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import VARIABLE, available
from coevolve.core.yaml_files import one_line

POLL = 2.0, 30.0  # seconds between looks at the queue, at first and later; a look takes two seconds of CPU time
SILENCE = 120.0  # seconds without an answer of a worker after which none is left: a busy one may be slow
WAITING = ("Queued", "Running")
STATES = (*WAITING, "Failed", "Success")
NOBODY = "Worker status: 0 active, 0 idle"
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
WORDS = ("true", "false", "null", "inf", "nan")


def work(
    wanted: Mapping[str, Mapping[str, Any]],
    jobs: int,
    collect: Callable[[Sequence[str]], Collection[str]],
) -> list[str]:
    """Run the experiments ``wanted`` (changes to params.yaml by name), ``jobs`` at a time. Returns the names of failed experiments.

    An experiment that an earlier call has queued is queued anew, with the changes that it has now; one that runs goes on. ``collect``
    gets the names of successful experiments at each look at the queue, and returns those whose results it has. Ctrl-C ends these
    experiments, and nobody else's. Raises CoevolveError if DVC's workers end before the experiments do.
    """
    _take(wanted, ("Queued", "Failed", "Success"), "remove")
    running = {name for _, name, _ in _look()[0]}
    for name in (name for name in wanted if name not in running):
        settings = [part for key, value in wanted[name].items() for part in ("-S", f"++{key}={override(value)}")]
        _dvc("exp", "run", "--queue", "-n", name, *settings)
    left, began = list(wanted), time.monotonic()
    heard = began  # when a worker last answered
    try:
        # without pipes: the workers would hold them open until the last experiment has ended
        subprocess.run(
            [sys.executable, "-m", "dvc", "queue", "start", "-j", str(min(jobs, len(wanted)))],
            env={
                **os.environ,
                "PATH": os.pathsep.join(
                    [os.environ.get("PATH", ""), os.path.dirname(sys.executable)]
                ),  # DVC starts `dvc`
                VARIABLE: str(max(available() // jobs, 1)),  # each has its share of the cores
            },
            stdout=subprocess.DEVNULL,
            check=True,
        )
        while True:
            tasks, answers = _look()
            states = {name: state for _, name, state in tasks}
            ended = collect([name for name in left if states.get(name) == "Success"])
            left = [name for name in left if name not in ended]
            going = [name for name in left if states.get(name) in WAITING]
            if not going:
                return left
            heard = time.monotonic() if answers else heard
            if time.monotonic() - heard > SILENCE:
                names = " ".join(going)
                raise CoevolveError(
                    f"DVC's workers have ended before {names}; call again, after `dvc queue kill --force {names}` if they are "
                    "said to be running"
                )
            time.sleep(min(POLL[0] + (time.monotonic() - began) / 20, POLL[1]))
    except KeyboardInterrupt:
        _take(wanted, ("Queued",), "remove")
        _take(wanted, ("Running",), "kill", "--force")
        raise


def _take(names: Collection[str], states: Sequence[str], *command: str) -> None:
    """Give DVC's ``command`` the tasks of the experiments ``names`` that are in one of the ``states``."""
    if tasks := [task for task, name, state in _look()[0] if name in names and state in states]:
        _dvc("queue", *command, *tasks)


def _look() -> tuple[list[tuple[str, str, str]], bool]:
    """The tasks that `dvc queue status` shows (task, experiment, state), and whether a worker answers."""
    shown = _dvc("queue", "status")
    rows = (line.split() for line in shown.splitlines())
    tasks = [(row[0], row[1], state) for row in rows if len(row) > 2 for state in row[2:] if state in STATES]
    return tasks, NOBODY not in shown


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
