"""Environments whose packages have their own virtual environment in the project's cache folder."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from coevolve.core import dvc
from coevolve.core.errors import CoevolveError
from coevolve.environments.worker import WorkerEnvironment

REQUIREMENTS = Path(__file__).parent / "requirements"
MARK = ".installed"  # holds the hash of the requirements that were installed


@dataclass(frozen=True, slots=True)
class Hosted:
    """Arguments of ``WorkerEnvironment``. ``each`` is the number of sessions that share a process."""

    place: str
    size: int = 2
    each: int = 16
    seconds: float = 60.0
    venv: str = ""  # the environment whose virtual environment it uses, if it has none
    after: tuple[str, ...] = ()  # a program of the virtual environment that completes the installation
    within: tuple[tuple[str, str], ...] = ()  # variables for that program that name folders of the virtual environment


HOSTED = {
    "agentdojo": Hosted("coevolve.environments.agentdojo:AgentDojo", each=64),
    # its wheel holds encrypted code, which its command unpacks; 270 MB per process
    "appworld": Hosted(
        "coevolve.environments.appworld:AppWorld",
        4,
        1,
        120.0,
        after=("appworld", "install"),
        within=(("APPWORLD_CACHE", "share/appworld"), ("APPWORLD_ROOT", ".")),
    ),
    "appworld_functions": Hosted("coevolve.environments.appworld:AppWorldFunctions", 4, 1, 120.0, venv="appworld"),
    "openenv": Hosted("coevolve.environments.openenv:OpenEnv", each=64),
    # needs a C compiler: it imports a solver that is distributed as source
    "reasoning_gym": Hosted("coevolve.environments.reasoning_gym:ReasoningGym", each=256),
    # a Java machine per process; its first tasks take minutes
    "scienceworld": Hosted("coevolve.environments.scienceworld:ScienceWorld", each=32, seconds=120.0),
    "tau2_airline": Hosted("coevolve.environments.tau2.airline:Tau2Airline", each=256, venv="tau2_retail"),
    "tau2_retail": Hosted("coevolve.environments.tau2.retail:Tau2Retail", each=256),
    "textworld": Hosted("coevolve.environments.textworld:TextWorld", each=64),
}


def cache() -> Path:
    """The folder of files that environments install and build: COEVOLVE_CACHE, or the project's scratch/environments."""
    return Path(os.environ.get("COEVOLVE_CACHE", dvc.root() / "scratch/environments"))


def _owner(name: str) -> str:
    """The environment whose virtual environment ``name`` uses."""
    return HOSTED[name].venv or name


def _venv(name: str) -> Path:
    return cache() / _owner(name) / "venv"


def requirements(name: str) -> Path:
    return REQUIREMENTS / f"{_owner(name)}.txt"


def _digest(name: str) -> str:
    return hashlib.sha256(requirements(name).read_bytes()).hexdigest()[:16]


def python(name: str) -> Path:
    """The environment's own interpreter."""
    return _venv(name) / "bin/python"


def installed(name: str) -> bool:
    """Whether the virtual environment holds exactly what the requirements pin."""
    mark = _venv(name) / MARK
    return mark.exists() and mark.read_text() == _digest(name)


def fetch(interpreter: Path, pinned: Path) -> None:
    """Install the packages in the file ``pinned``, and no other packages, for ``interpreter``.

    Uses uv if it is installed and reaches the registry, because it is several times faster than pip.
    """
    packages = ["--no-deps", "-q", "-r", str(pinned)]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", str(interpreter), *packages]
    if find_spec("uv") is None or subprocess.run(uv, check=False).returncode:
        pip = [str(interpreter), "-m", "pip", "install", "--disable-pip-version-check", *packages]
        subprocess.run(pip, check=True)


def install(name: str) -> None:
    """Build the virtual environment, unless it holds exactly the pinned packages. A failure leaves no folder."""
    if installed(name):
        return
    one, folder = HOSTED[_owner(name)], _venv(name)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"{folder}: installing {requirements(name).name}; this takes a minute or two", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        fetch(python(name), requirements(name))
        if one.after:
            settings = {**os.environ, **{key: str(folder / inner) for key, inner in one.within}}
            subprocess.run([str(folder / "bin" / one.after[0]), *one.after[1:]], check=True, cwd=folder, env=settings)
        (folder / MARK).write_text(_digest(name))
    except (subprocess.CalledProcessError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CoevolveError(
            f"{name} could not be installed: {error}; check that the package registry is reachable"
        ) from None


def make_hosted(name: str) -> WorkerEnvironment:
    """The environment in workers. If it is not installed, a CoevolveError says what to type."""
    if not installed(name):
        raise CoevolveError(f"{name} is not installed; run `coevolve env install {name}`")
    one = HOSTED[name]
    os.environ.setdefault("COEVOLVE_CACHE", str(cache()))  # for the workers
    return WorkerEnvironment(name, one.place, str(python(name)), one.size, one.each, one.seconds)
