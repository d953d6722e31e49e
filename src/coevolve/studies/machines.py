"""Make the runs of a study on the machines of a cluster. Each worker has a clone of the project and makes one run after another.

Runs share their common stages through the run cache of their clone. A worker sends back only the texts of a result. Checkpoints and
experiments stay in the clone, which is deleted with the worker.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock

from coevolve.core.errors import CoevolveError
from coevolve.core.processes import VARIABLE, WorkerDied
from coevolve.core.scratch import temporary
from coevolve.core.workers import Engine, Workers

SHOWN = 4  # last lines of a failed run's output to show
PARAMS = "params.yaml"
OWN = (PARAMS, "dvc.lock", "studies/")  # files that a run does not take from the commit


class Texts(dict[str, str]):
    """Files by path, with a part of the interface of `dvc.api.DVCFileSystem`."""

    def read_text(self, path: str) -> str:
        if path not in self:
            raise FileNotFoundError(path)
        return self[path]


class Clone:
    """The project at the commit in ``bundle``, in a temporary folder; ``variables`` are for its processes."""

    def __init__(self, bundle: bytes, variables: Mapping[str, str]) -> None:
        self._held = ExitStack()
        place = self._held.enter_context(temporary("clone"))
        self._folder, file = place / "project", place / "bundle"
        file.write_bytes(bundle)
        dvc = {name: value for name, value in os.environ.items() if not name.startswith("DVC_")}
        # the clone's code comes first on the import path
        self._variables = {**dvc, **variables, "PYTHONPATH": str(self._folder / "src")}
        self._say("git", "clone", "-q", str(file), str(self._folder), folder=place)
        file.unlink()

    def run(self, params: str, wanted: Sequence[str]) -> Texts:
        """Make a run with ``params``, the text of a params.yaml. Returns the texts of the files that match the patterns ``wanted``."""
        (self._folder / PARAMS).write_text(params)
        self._say(sys.executable, "-m", "dvc", "repro", "-q")
        files = (file for pattern in wanted for file in self._folder.glob(pattern))
        return Texts({file.relative_to(self._folder).as_posix(): file.read_text() for file in files})

    def close(self) -> None:
        """Remove the clone."""
        self._held.close()

    def _say(self, *command: str, folder: Path | None = None) -> None:
        done = subprocess.run(
            command, cwd=folder or self._folder, env=self._variables, capture_output=True, text=True, check=False
        )
        if done.returncode:
            lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
            raise CoevolveError(" | ".join(lines[-SHOWN:]) or f"{' '.join(command[:4])} failed")


def bundle() -> bytes:
    """The committed project as a git bundle. Changes that are not committed would be missing, so they are a CoevolveError."""
    changed = _git("status", "--porcelain", "--untracked-files=no").decode().splitlines()
    if outside := [line[3:] for line in changed if not line[3:].startswith(OWN)]:
        raise CoevolveError(
            f"{outside[0]} is not committed, but other machines run the commit; commit it, or run `git stash`"
        )
    return _git("bundle", "create", "-q", "-", "HEAD")


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    if done.returncode:
        raise CoevolveError(f"git {' '.join(arguments[:2])}: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout


def work(
    wanted: Mapping[str, str],
    engine: Engine,
    cpus: int,
    files: Sequence[str],
    collect: Callable[[str, Texts], object],
) -> list[str]:
    """Make the runs ``wanted`` (name → text of params.yaml), each with ``cpus`` processes. Returns failed runs with their reasons.

    ``collect`` gets the texts of a run's ``files`` as soon as the run ends, one run at a time. If a machine is lost, another machine
    repeats its run. If a process ends, its run is repeated once.
    """
    failed: list[str] = []
    lock = Lock()
    variables = {VARIABLE: str(cpus)}
    if server := os.environ.get("MLFLOW_TRACKING_URI"):
        variables["MLFLOW_TRACKING_URI"] = server
    with Workers(engine, Clone, bundle(), variables) as workers:

        def made(name: str) -> None:
            ask = partial(workers.call, "run", wanted[name], files)
            try:
                try:
                    texts = ask()
                except WorkerDied:
                    texts = ask()
            except (CoevolveError, WorkerDied) as error:
                with lock:
                    failed.append(f"{name} ({error})")
                return
            with lock:
                collect(name, texts)

        for _ in workers.map(made, list(wanted)):
            pass
        workers.all("close")
    return failed
