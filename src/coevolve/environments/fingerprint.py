"""What an environment is, so that nothing made in another one passes for made in this.

Stage `tasks` notes it in data/environment.json, every stage that plays there depends on that file, and none plays where
what it says is no longer true.
"""

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import read_json
from coevolve.core.paths import Paths
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make


def identity(environment: Environment) -> dict[str, str]:
    """``name``; ``fingerprint`` (its package's version and its data's hash, by its own word); ``sources``, a hash of its code."""
    return {
        "name": environment.name,
        "fingerprint": environment.fingerprint,
        "sources": content_hash(environment.sources()),
    }


def fingerprint_of(name: str) -> dict[str, str]:
    """What must be the same wherever the environment called ``name`` is asked."""
    return {f"environment {name}: {key}": value for key, value in identity(make(name)).items()}


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
