"""Environments by name. Third parties add theirs with the entry point group ``coevolve.environments``."""

from importlib import import_module
from importlib.metadata import entry_points

from coevolve.environments.base import Environment, Session
from coevolve.errors import CoevolveError

__all__ = ["BUILT_IN", "Environment", "Session", "make", "names", "trl_factory", "trl_rows"]

BUILT_IN = {
    "bfcl": "coevolve.environments.bfcl:BFCL",
    "bfcl_single": "coevolve.environments.bfcl.single:BFCLSingle",
    "miniworld": "coevolve.environments.miniworld:Miniworld",
    "sql": "coevolve.environments.sql:SQL",
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


def __getattr__(name: str) -> object:
    """``trl_factory`` and ``trl_rows``, loaded when they are used."""
    if name in ("trl_factory", "trl_rows"):
        return getattr(import_module("coevolve.environments.trl"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
