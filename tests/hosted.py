"""The environments in workers, by name."""

from coevolve.environments.hosted import Hosted
from coevolve.environments.registry import maker, names

HOSTED = {name: made for name in names() if isinstance(made := maker(name), Hosted)}


def installed(name: str) -> bool:
    """Whether ``name`` has a virtual environment with what its requirements pin."""
    return HOSTED[name].installed()
