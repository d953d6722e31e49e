"""The identity of an environment, so that a run never mixes data of different environments or versions.

Stage `tasks` writes the identity to data/environment.json. Every stage that plays there depends on that file, and refuses to
play if the identity has changed.
"""

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import read_json
from coevolve.core.paths import Paths
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make


def identity(environment: Environment) -> dict[str, str]:
    """``name``; ``fingerprint``, as the environment states it (package version and data hash); ``sources``, a hash of its code."""
    return {
        "name": environment.name,
        "fingerprint": environment.fingerprint,
        "sources": content_hash(environment.sources()),
    }


def fingerprint_of(name: str) -> dict[str, str]:
    """The identity of the environment ``name``, which must be equal on all machines of a run."""
    return {f"environment {name}: {key}": value for key, value in identity(make(name)).items()}


def open_environment(name: str) -> Environment:
    """The environment ``name``. Raises a CoevolveError if its identity is not the one in data/environment.json."""
    environment = make(name)
    noted, found = read_json(Paths.environment), identity(environment)
    if noted != found:
        key = next(key for key in found if noted.get(key) != found[key])
        raise CoevolveError(
            f"{Paths.environment}: {key} of the environment is {found[key]}, but was {noted.get(key)} when the tasks were "
            "made; run `dvc repro -f tasks`, then `dvc repro`, which makes all data of this environment again"
        )
    return environment
