"""Environments by name. Other packages and the project add environments by the entry point group ``coevolve.environments``.

A running program adds its own with ``register``. ``expected`` in core/errors.py asks "did you mean" after an unknown name.
"""

import sys
from inspect import isabstract
from pathlib import Path
from typing import Any, TypeVar

from coevolve.core.code_closure import PREFIXES
from coevolve.core.errors import CoevolveError, expected
from coevolve.core.plugins import attempt, is_place, load, plugins
from coevolve.environments.environment import Environment
from coevolve.environments.sources import GROUP

WANTED = "MODULE:CLASS of an environment"
ARGUMENTS = "it is made without arguments; if it needs some, name a function that gives them"
BASE = f"{Environment.__module__}.{Environment.__name__}"
REGISTERED: dict[str, type[Environment]] = {}  # by ``register``, in this process


def places() -> dict[str, str]:
    """Name → MODULE:CLASS of every environment that this installation or the project declares."""
    return {name: point.value for name, point in plugins(GROUP).items()}


def is_own(name: str) -> bool:
    """Whether the environment ``name`` does not belong to coevolve."""
    return not places().get(name, "").startswith(PREFIXES)


Registered = TypeVar("Registered", bound=type[Environment])


def register(environment: Registered) -> Registered:
    """Register ``environment`` under its name for this process. Returns the class, so that it works as a decorator.

    A class registered later under the same name replaces it, as when a notebook's cell runs again. Other processes, such as
    the stages of `dvc repro`, do not see it: they need the entry point that `coevolve env new` writes.
    """
    name = _made(environment, getattr(environment, "__qualname__", repr(environment))).name
    if not is_own(name):
        raise CoevolveError(f"environment {name!r} belongs to coevolve; give yours another name")
    REGISTERED[name] = environment
    return environment


def names() -> list[str]:
    """All names that ``make`` knows."""
    return sorted({*REGISTERED, *places()})


def maker(name: str) -> Any:
    """The class, function or ``Hosted`` that makes the environment called ``name``. An unknown name is a CoevolveError."""
    return REGISTERED.get(name) or load(_place(name), WANTED)


def _place(name: str) -> str:
    if (place := places().get(name)) is None:
        raise CoevolveError(
            f"environment {name!r} is unknown; {expected(name, names())}. FILE.py:CLASS names a class of your own; an entry "
            f"point of the group {GROUP} in pyproject.toml gives it a name"
        )
    return place


def make(name: str) -> Environment:
    """The environment called ``name``, or that MODULE:CLASS or FILE.py:CLASS makes, or FILE.py:CLASS@TASKS.

    An unknown name is a CoevolveError that lists the known names.
    """
    if is_place(name):
        place, _, known = name.partition("@")
        return _made(load(_imported(place), WANTED), place, known)
    place = name if name in REGISTERED else _place(name)
    made = _made(maker(name), place)
    if made.name != name:
        raise CoevolveError(
            f"entry point {name} = {place}: the environment calls itself {made.name!r}; use the same name for both"
        )
    return made


def _imported(place: str) -> str:
    """MODULE:CLASS of FILE.py:CLASS, whose folder joins the import path."""
    path, _, maker = place.partition(":")
    if not path.endswith(".py"):
        return place
    if not (file := Path(path)).is_file():
        raise CoevolveError(f"{place}: there is no file {path}")
    if (folder := str(file.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    return f"{file.stem}:{maker}"


def _made(maker: Any, place: str, known: str = "") -> Environment:
    """The environment that ``maker`` makes; anything else is a CoevolveError. ``place`` names ``maker`` in errors.

    ``known`` is the file of tasks of a class that holds none.
    """
    if not callable(maker):
        raise CoevolveError(f"{place} cannot be called; expected MODULE:CLASS of an environment")
    if isinstance(maker, type) and not issubclass(maker, Environment) and not hasattr(maker, "reset"):
        raise CoevolveError(
            f"{place} is not an environment; it must inherit {BASE}, or have reset(**row) as a class that TRL plays"
        )
    if isabstract(maker):
        raise CoevolveError(f"{place} lacks {', '.join(sorted(maker.__abstractmethods__))}; see {BASE}")
    made = attempt(maker, f"{place} cannot be made", f"; {ARGUMENTS}")
    if not isinstance(made, Environment) and callable(getattr(made, "reset", None)):  # a class as TRL plays them
        # not at the top: a worker may have nothing but its environment's packages
        from coevolve.environments.row_environment import RowEnvironment

        made = RowEnvironment(maker, known)
    if not isinstance(made, Environment):
        raise CoevolveError(f"{place} does not return an environment; the returned object must inherit {BASE}")
    if lacking := [key for key in ("name", "fingerprint", "panels") if not hasattr(made, key)]:
        raise CoevolveError(f"{place} lacks {', '.join(lacking)}; see {BASE}")
    if not isinstance(made.name, str) or not (made.name.isidentifier() and made.name.isascii()):
        raise CoevolveError(f"{made.name!r} is no environment's name; use letters, digits and underscores")
    return made
