"""Find additions of other packages and of the project: entry points that are installed, or declared in pyproject.toml.

The project's declarations need no installation, because its folder (the working directory) joins the import path. So an
environment in a file beside params.yaml works at once, and a queued experiment imports its own copy of that file.
"""

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from coevolve.core.errors import CoevolveError

DECLARATIONS = Path("pyproject.toml")


def plugins(group: str) -> dict[str, EntryPoint]:
    """Name → entry point of ``group``. The project's own declaration of a name comes before an installed one."""
    declared = _declared(group)
    if declared and (folder := str(DECLARATIONS.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    installed = {point.name: point for point in entry_points(group=group)}
    return {**installed, **{name: EntryPoint(name, value, group) for name, value in declared.items()}}


def _declared(group: str) -> dict[str, str]:
    import tomllib  # not at the top: an environment's worker may run an older Python

    try:
        project = tomllib.loads(DECLARATIONS.read_text(encoding="utf-8")).get("project", {})
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CoevolveError(f"{DECLARATIONS}: not a TOML file: {error}") from None
    points = project.get("entry-points", {}).get(group, {}) if isinstance(project, dict) else {}
    if not isinstance(points, dict) or not all(isinstance(value, str) for value in points.values()):
        raise CoevolveError(f'{DECLARATIONS}: project.entry-points."{group}": expected NAME = "MODULE:CLASS"')
    return points
