"""Find additions of other packages and of the project: entry points that are installed, or declared in pyproject.toml.

The project's declarations need no installation, because its folder (the working directory) joins the import path. So an
environment in a file beside params.yaml works at once, and a queued experiment imports its own copy of that file.
"""

import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from coevolve.core.code_closure import PACKAGE, SOURCE
from coevolve.core.errors import CoevolveError, expected

DECLARATIONS = Path("pyproject.toml")
CHECKOUT = SOURCE.parent / DECLARATIONS  # of a checkout: its packages count even if it is not installed
LIBRARY = sysconfig.get_path("stdlib")
PLACE = re.compile(r"[\w.]+(:[\w.]+)?")  # MODULE or MODULE:NAME


@dataclass(frozen=True)
class Registry:
    """Modules by name: those of coevolve, and those that other packages and the project add to the entry point ``group``.

    A path such as studies/mine/explorer.py also names a module: the file of the project.
    """

    kind: str  # what each module is, in errors
    group: str
    built_in: Mapping[str, str]

    def names(self) -> list[str]:
        return [*self.built_in, *sorted(set(plugins(self.group)) - set(self.built_in))]

    def module(self, name: str) -> ModuleType:
        """The module called ``name``."""
        if is_file(name):
            place, load_module = name, partial(_imported, Path(name).resolve())
        else:
            place = self._place(name)
            load_module = partial(import_module, place)
        module: ModuleType = attempt(load_module, f"{self.kind} {name}: {place} cannot be imported")
        return module

    def find(self, name: str, attribute: str) -> Any:
        """The ``attribute`` of the module called ``name``."""
        module = self.module(name)
        if not hasattr(module, attribute):
            raise CoevolveError(f"{self.kind} {name}: {module.__name__} has no {attribute}")
        return getattr(module, attribute)

    def _place(self, name: str) -> str:
        if name in self.built_in:
            return self.built_in[name]
        if point := plugins(self.group).get(name):
            return point.value
        raise CoevolveError(f"{self.kind} {name!r} is unknown; {expected(name, self.names())}")


def is_file(name: str) -> bool:
    """Whether ``name`` is the path of a file of Python."""
    return name.endswith(".py")


def is_place(name: str) -> bool:
    """Whether ``name`` says where a class is: MODULE:CLASS or FILE.py:CLASS."""
    return ":" in name


@cache
def _imported(file: Path) -> ModuleType:
    spec = spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plugins(group: str) -> dict[str, EntryPoint]:
    """Name → entry point of ``group``. The project's own declaration of a name comes before an installed one."""
    declared = _declared(DECLARATIONS, group)
    if declared and (folder := str(DECLARATIONS.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    installed = {point.name: point for point in entry_points(group=group)}
    declared = {**_declared(CHECKOUT, group), **declared}
    return {**installed, **{name: EntryPoint(name, value, group) for name, value in declared.items()}}


def _declared(file: Path, group: str) -> dict[str, str]:
    points = _table(file, "project", "entry-points", group)
    if not all(isinstance(value, str) for value in points.values()):
        raise CoevolveError(f'{file}: project.entry-points."{group}": expected NAME = "MODULE:CLASS"')
    return points


def declared_files(folder: Path) -> list[str]:
    """The files that an environment in a single module uses beside it: ``files`` of `tool.coevolve` in pyproject.toml."""
    files = _table(folder / DECLARATIONS, "tool", "coevolve").get("files", [])
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise CoevolveError(f"{folder / DECLARATIONS}: tool.coevolve: expected files = [NAMES]")
    return files


def _table(file: Path, *keys: str) -> dict[str, Any]:
    """The table ``keys`` of a TOML file; empty if the file or the table is missing."""
    try:
        text = file.read_text(encoding="utf-8")
        import tomllib  # not at the top: an environment's worker may run an older Python

        table: Any = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:  # also text that is not UTF-8
        raise CoevolveError(f"{file}: not a TOML file: {error}") from None
    for key in keys:
        table = table.get(key, {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise CoevolveError(f"{file}: {'.'.join(keys)}: expected a table")
    return table


def load(place: str, expected: str) -> Any:
    """Import and return MODULE or MODULE:NAME. A failed import is a CoevolveError of one line that says what was ``expected``."""
    if not PLACE.fullmatch(place):
        raise CoevolveError(f"{place}: expected {expected}")
    module, _, name = place.partition(":")
    found = attempt(lambda: import_module(module), f"{place} cannot be imported", f"; expected {expected}")
    for part in filter(None, name.split(".")):
        if not hasattr(found, part):
            raise CoevolveError(f"{place} cannot be imported: {module} has no {part}; expected {expected}")
        found = getattr(found, part)
    return found


def attempt(action: Callable[[], Any], failure: str, hint: str = "") -> Any:
    """The result of ``action``, which runs a user's code. An error becomes one line: ``failure``, the error, its place."""
    try:
        return action()
    except (CoevolveError, OSError, MemoryError):
        raise  # they name a file, or what the machine lacks
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise CoevolveError(f"{failure}: {kind}{text}{place_of(error)}{hint}") from None


def place_of(error: BaseException) -> str:
    """The last line of a user's code that ``error`` went through; empty if it went through none, and for a CoevolveError."""
    if isinstance(error, CoevolveError):
        return ""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}, line {error.lineno})"
    ours = (str(SOURCE / PACKAGE), "<")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    theirs = [one for one in frames if not one.filename.startswith(LIBRARY) or "site-packages" in one.filename]
    return f" ({theirs[-1].filename}, line {theirs[-1].lineno})" if theirs else ""
