"""Environments by name. Third parties add theirs with the entry point group ``coevolve.environments``."""

from importlib import import_module
from importlib.metadata import entry_points

from coevolve.core.errors import CoevolveError
from coevolve.environments.environment import Environment

BUILT_IN = {
    "bfcl": "coevolve.environments.bfcl.bfcl_environment:BFCL",
    "bfcl_single": "coevolve.environments.bfcl.single_turn:BFCLSingle",
    "miniworld": "coevolve.environments.miniworld.miniworld_environment:Miniworld",
    "sql": "coevolve.environments.sql.sql_environment:SQL",
}


def names() -> list[str]:
    """All names that ``make`` knows."""
    from coevolve.environments.hosted import HOSTED

    return sorted({*BUILT_IN, *HOSTED, *(point.name for point in entry_points(group="coevolve.environments"))})


def make(name: str) -> Environment:
    """The environment called ``name``; an unknown one is a CoevolveError that lists the known."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        environment: Environment = getattr(import_module(module), attribute)()
        return environment
    from coevolve.environments.hosted import HOSTED, make_hosted

    if name in HOSTED:
        return make_hosted(name)
    for point in entry_points(group="coevolve.environments"):
        if point.name == name:
            loaded: Environment = point.load()()
            return loaded
    raise CoevolveError(f"environment {name!r} is unknown; expected one of: {', '.join(names())}")
