"""Try an environment in a process of its own, and print what a new project must know about it.

`coevolve init` runs this for an environment in a file twice: where the file lies, to see which files beside it the environment
uses, and in the project, to see that the copies work.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from coevolve.core.code_closure import SOURCE
from coevolve.core.errors import CoevolveError
from coevolve.core.guard import guard
from coevolve.core.plugins import attempt
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.policies.config import PolicySection
from coevolve.rollout import Limits
from coevolve.stages.train.reference_tokens import failing
from coevolve.words.words_match import KnowsMeanings, ParsesWords

READS = ("open", "sqlite3.connect")  # audit events of Python by which an environment reads a file
FOREIGN = {"__pycache__", "site-packages"}  # folders whose files belong to no environment


def try_reference(environment: Environment) -> None:
    """Play the reference of the first training task that has one, as the loop does. A failure is a CoevolveError."""
    task = next((task for task in environment.tasks("seed") if any(environment.reference(task))), None)
    limits = Limits.of(PolicySection(max_turns=1000))
    if task is not None and (reason := failing(environment, task, limits)):
        raise CoevolveError(f"{environment.name}: the reference of task {task.task_id} fails: {reason}")


def main(place: str) -> None:
    """Print the name of the environment ``place``, the values of params.yaml that fit it, and the files beside it that it uses."""
    path = place.partition(":")[0]
    file, read = Path(path).resolve(), set[str]()
    if path.endswith(".py"):
        spec = find_spec(file.stem)
        if spec is not None and spec.origin not in (None, str(file)):
            raise CoevolveError(f"{path}: {file.stem} is also the name of a module ({spec.origin}); rename the file")
        sys.addaudithook(lambda event, arguments: _note(event, arguments, str(file.parent) + os.sep, read))
    environment = make(place)
    attempt(lambda: try_reference(environment), f"{environment.name}: the tasks cannot be played")
    modules = [str(getattr(module, "__file__", "")) for module in [*sys.modules.values()]]
    files = sorted(set(_beside(file.parent, [*read, *modules]))) if path.endswith(".py") else []
    tasks = len(environment.tasks("seed"))
    print(json.dumps({"name": environment.name, "values": needed(environment), "tasks": tasks, "files": files}))


def needed(environment: Environment) -> dict[str, Any]:
    """The values of params.yaml that fit ``environment``: rules for its words, and a panel."""
    known = environment.phrasebook.actions or isinstance(environment, ParsesWords | KnowsMeanings)
    values: dict[str, Any] = {"verify.words": "language" if known else "values"}
    if environment.panels and "validation" not in environment.panels:
        values["report.panel"] = environment.panels[0]
    return values


def _note(event: str, arguments: tuple[Any, ...], folder: str, read: set[str]) -> None:
    """Add a file to ``read`` if code in ``folder`` opens it for reading."""
    if event not in READS or not isinstance(arguments[0], str | os.PathLike):
        return
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(folder):
        frame = frame.f_back
    if frame is not None:
        read.add(os.path.abspath(arguments[0]))


def _beside(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Those of ``names`` that are files of ``folder`` and of no installed package, relative to it. A hidden file is none of them:
    .env holds keys, and a project's files go into git.
    """
    for name in names:
        path = Path(name)
        installed = path.is_relative_to(SOURCE) or path.is_relative_to(sys.prefix) or FOREIGN & {*path.parts}
        if path.is_relative_to(folder) and path.is_file() and not installed:
            beside = path.relative_to(folder)
            if not any(part.startswith(".") for part in beside.parts):
                yield str(beside)


if __name__ == "__main__":
    guard(lambda: main(sys.argv[1]))
