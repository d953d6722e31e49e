"""Write an environment package: tasks, a card, and a Python package that verifiers loads by the folder's name."""

import json
import keyword
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from coevolve import __version__
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl, write_text
from coevolve.core.task import Task
from coevolve.core.untrusted import one_line

TAKEN = ("harbor", "nemo_gym", "openenv", "textarena")  # modules that verifiers finds before any package

DECLARATION = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = {name}
version = "0.1.0"
description = {description}
readme = "README.md"
requires-python = ">=3.11,<3.13"
dependencies = ["coevolve>={version}", "verifiers>=0.4,<0.5"]

[tool.hatch.build.targets.wheel]
packages = [{module}]
"""

MODULE = '''\
"""{description}"""

from pathlib import Path

from coevolve.trainers.verifiers_taskset import CoevolveEnv, CoevolveTaskset

__all__ = ["CoevolveEnv", "{maker}"]


class {maker}(CoevolveTaskset):
    FILE = Path(__file__).with_name("tasks.jsonl")
'''

PLAY = """
## Play

verifiers pins packages, so give it a virtual environment of its own. Install coevolve and the
environment's package there, if an index does not have them.

    python3.11 -m venv play
    play/bin/pip install ./{name}
    play/bin/vf-validate {name} --runtime.type subprocess    # replays each reference
    play/bin/vf-eval {name} --model MODEL --client.base-url URL --client.api-key-var KEY --no-push

The reward is the environment's own. A later user turn follows each message without a call. The tools
are native calls. `coevolve grow outputs --environment {environment}` reads the traces.
"""


def package_name(folder: Path) -> str:
    """The name of the Python module of a package in ``folder``; a name that cannot be one is a CoevolveError."""
    name = folder.name
    module = name.replace("-", "_").lower()
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) or keyword.iskeyword(module):
        raise CoevolveError(f"--out {folder}: verifiers loads the folder by its name; use letters, digits and hyphens")
    if module in TAKEN or find_spec(module) is not None:
        raise CoevolveError(f"--out {folder}: Python already has a module {module}; name the folder differently")
    return module


def write_package(folder: Path, name: str, environment: str, tasks: Sequence[Task], card: str) -> None:
    """Write the package ``name`` to ``folder``: the declaration, the module with its tasks, and the ``card`` as README.md."""
    module = package_name(Path(name))
    description = one_line(f"{len(tasks)} tasks of {environment} for verifiers", 100)
    maker = "".join(part.title() for part in module.split("_")) + "Taskset"
    fields = {"name": name, "description": description, "version": __version__, "module": module}
    quoted = {key: value if key == "version" else json.dumps(value) for key, value in fields.items()}
    write_text(folder / "pyproject.toml", DECLARATION.format(**quoted))
    write_text(folder / module / "__init__.py", MODULE.format(description=description, maker=maker))
    write_jsonl(folder / module / "tasks.jsonl", tasks)
    write_text(folder / "README.md", card + PLAY.format(name=name, environment=one_line(environment)))
