"""Environments that run in workers, with packages that `coevolve env install` pins. Most have their own virtual environment."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.scratch import scratch
from coevolve.environments.worker import WorkerEnvironment

MARK = ".installed"  # holds the hash of the requirements that were installed


def cache() -> Path:
    """The folder of files that environments install and build: COEVOLVE_CACHE, or the project's scratch/environments."""
    return Path(os.environ.get("COEVOLVE_CACHE", scratch() / "environments"))


@dataclass(frozen=True, slots=True)
class Hosted:
    """An entry point of an environment in workers: a call makes the environment.

    Environments with the same file of requirements share a virtual environment.
    """

    name: str
    place: str  # MODULE:CLASS that the workers import
    requirements: Path  # pins every package
    size: int = 2  # processes
    each: int = 16  # sessions that share a process
    seconds: float = 60.0  # time limit of a call
    memory: int = 0  # bytes of a process; 0: no limit
    # the packages stand beside coevolve's, without dependencies, instead of in an environment of their own
    beside: bool = False
    after: tuple[str, ...] = ()  # a program of the virtual environment that completes the installation
    within: tuple[tuple[str, str], ...] = ()  # variables for that program that name folders of the virtual environment

    @property
    def venv(self) -> Path:
        return cache() / self.requirements.stem / "venv"

    @property
    def python(self) -> Path:
        """The interpreter of the workers."""
        return Path(sys.executable) if self.beside else self.venv / "bin/python"

    def __call__(self) -> WorkerEnvironment:
        """The environment. If its virtual environment is missing, a CoevolveError says what to type."""
        if not self.beside and not self.installed():
            raise CoevolveError(f"{self.name} is not installed; run `coevolve env install {self.name}`")
        os.environ.setdefault("COEVOLVE_CACHE", str(cache()))  # for the workers
        python = str(self.python)
        return WorkerEnvironment(self.name, self.place, python, self.size, self.each, self.seconds, memory=self.memory)

    def installed(self) -> bool:
        """Whether the virtual environment holds exactly what the requirements pin."""
        mark = self.venv / MARK
        return mark.exists() and mark.read_text() == self._digest()

    def _digest(self) -> str:
        return hashlib.sha256(self.requirements.read_bytes()).hexdigest()[:16]

    def install(self) -> None:
        """Install the pinned packages, unless the virtual environment holds exactly these. A failure leaves no folder."""
        try:
            if self.beside:
                self._fetch()
            elif not self.installed():
                print(f"{self.venv}: installing {self.requirements.name}; this takes a minute or two", flush=True)
                self._build()
        except (subprocess.CalledProcessError, OSError) as error:
            raise CoevolveError(
                f"{self.name} could not be installed: {error}; check that the package registry is reachable"
            ) from None

    def _build(self) -> None:
        shutil.rmtree(self.venv, ignore_errors=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", str(self.venv)], check=True)
            self._fetch()
            if self.after:
                settings = {**os.environ, **{key: str(self.venv / inner) for key, inner in self.within}}
                program = [str(self.venv / "bin" / self.after[0]), *self.after[1:]]
                subprocess.run(program, check=True, cwd=self.venv, env=settings)
            (self.venv / MARK).write_text(self._digest())
        except BaseException:
            shutil.rmtree(self.venv, ignore_errors=True)
            raise

    def _fetch(self) -> None:
        """Install the pinned packages and no others. Uses uv, which is faster than pip, if it reaches the registry."""
        packages = ["--no-deps", "-q", "-r", str(self.requirements)]
        uv = [sys.executable, "-m", "uv", "pip", "install", "--python", str(self.python), *packages]
        if find_spec("uv") is None or subprocess.run(uv, check=False).returncode:
            pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", *packages]
            subprocess.run(pip, check=True)
