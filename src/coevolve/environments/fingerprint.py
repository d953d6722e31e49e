"""What an environment is, so that nothing made in another one passes for made in this.

Stage `tasks` notes it in data/environment.json, every stage that plays there depends on that file, and none plays where
what it says is no longer true.
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.imports import PACKAGE, SOURCE, closure
from coevolve.core.io import read_json
from coevolve.core.paths import Paths
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment

WORKER = "coevolve.environments.worker_main"  # the other side of every environment that runs in a worker


def identity(environment: Environment) -> dict[str, str]:
    """``name``; ``fingerprint`` (its package's version and its data's hash, by its own word); ``sources``, a hash of its code."""
    digest = hashlib.sha256()
    for name, text in sorted(_sources(environment).items()):
        digest.update(f"{name}\0{hashlib.sha256(text).hexdigest()}\n".encode())
    return {
        "name": environment.name,
        "fingerprint": environment.fingerprint,
        "sources": digest.hexdigest()[:16],
    }


def open_environment(name: str) -> Environment:
    """The environment called ``name``, which must be the one that stage `tasks` noted."""
    environment = make(name)
    noted, found = read_json(Paths.environment), identity(environment)
    if noted != found:
        key = next(key for key in found if noted.get(key) != found[key])
        raise CoevolveError(
            f"{Paths.environment}: {key} of the environment is {found[key]}, and was {noted.get(key)} when the tasks were "
            "made; run `dvc repro -f tasks`, then `dvc repro`: what was made in the other one is made again"
        )
    return environment


def _sources(environment: Environment) -> dict[str, bytes]:
    """The code that decides what happens in ``environment``, by path: ours that it imports, or all of its own package."""
    modules = [type(environment).__module__]
    if isinstance(environment, WorkerEnvironment):
        modules += [WORKER, environment.place.partition(":")[0]]
    found: dict[str, bytes] = {}
    for module in modules:
        if module.partition(".")[0] == PACKAGE:
            start = f"{module.replace('.', '/')}.py"
            found |= {name: (SOURCE / name).read_bytes() for name in (start, *closure(SOURCE / start))}
        else:
            found |= {str(number): file.read_bytes() for number, file in enumerate(_package(module))}
    return found


def _package(module: str) -> Sequence[Path]:
    """The Python files of the package that ``module`` belongs to, or its own, in order."""
    top = module.partition(".")[0]
    file = Path(getattr(sys.modules.get(top), "__file__", None) or "")
    return sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else [file] if file.is_file() else []
