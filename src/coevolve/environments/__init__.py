"""Environments by name. Third parties add theirs with the entry point group ``coevolve.environments``."""

from importlib import import_module
from importlib.metadata import entry_points

from coevolve.environments.base import Environment, Session
from coevolve.errors import CoevolveError

__all__ = ["BUILT_IN", "Environment", "Session", "make", "names", "trl_factory", "trl_rows"]

BUILT_IN = {
    "appworld": "coevolve.environments.hosted",  # in a worker, with packages of its own
    "appworld_functions": "coevolve.environments.hosted",
    "bfcl": "coevolve.environments.bfcl:BFCL",
    "bfcl_single": "coevolve.environments.bfcl.single:BFCLSingle",
    "kitchens": "coevolve.environments.hosted",
    "miniworld": "coevolve.environments.miniworld:Miniworld",
    "openenv": "coevolve.environments.hosted",
    "sql": "coevolve.environments.sql:SQL",
    "textworld": "coevolve.environments.hosted",
}
_HOSTED = "coevolve.environments.hosted"


def names() -> list[str]:
    """All names that ``make`` knows."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group="coevolve.environments"))})


def make(name: str) -> Environment:
    """The environment called ``name``; an unknown one is a CoevolveError that lists the known."""
    if BUILT_IN.get(name) == _HOSTED:
        hosted: Environment = import_module(_HOSTED).make_hosted(name)
        return hosted
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        environment: Environment = getattr(import_module(module), attribute)()
        return environment
    for point in entry_points(group="coevolve.environments"):
        if point.name == name:
            loaded: Environment = point.load()()
            return loaded
    raise CoevolveError(f"environment {name!r} is unknown; expected one of: {', '.join(names())}")


def __getattr__(name: str) -> object:
    """``trl_factory`` and ``trl_rows``, loaded when they are used."""
    if name in ("trl_factory", "trl_rows"):
        return getattr(import_module("coevolve.environments.trl"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
