"""AppWorld (arXiv 2407.18901) in workers, one world per process: code actions, or function calls by its API docs.

The license does not let coevolve ship the benchmark's tasks: the user downloads them (`appworld download data`) into
APPWORLD_ROOT. AppWorld's evaluator judges an episode. It judges only the benchmark's tasks, so the loop can train and evaluate
here, and verification rejects synthesized tasks. A root with a file ``data/GENERATED`` holds other worlds than the benchmark's.
The fingerprint says so, and their scores are not comparable with AppWorld's.
"""

import ast
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import Hosted
from coevolve_environments.episode import PARTIAL, AdapterSession, tool

SPLITS = {"seed": "train", "validation": "dev", "test_normal": "test_normal", "test_challenge": "test_challenge"}
MAX_CODE = 50_000  # characters
FAILED = "Execution failed"
EXECUTE = tool(
    "execute",
    "Run Python code; `apis.APP.API(...)` calls an app, print shows a result, variables stay",
    code="Python code",
)


def root() -> Path:
    """The folder that holds AppWorld's ``data``. If it is missing, a CoevolveError says how to download it."""
    place = Path(os.environ.get("APPWORLD_ROOT") or Path(os.environ.get("COEVOLVE_CACHE", ".")) / "appworld")
    if not (place / "data/datasets").is_dir():
        raise CoevolveError(
            f"appworld has no data in {place}; download it with "
            f"`{os.environ.get('COEVOLVE_CACHE', 'scratch/environments')}/appworld/venv/bin/appworld download data "
            f"--root {place}`, or set APPWORLD_ROOT to the folder that holds it"
        )
    return place


class AppWorld(Environment):
    """AppWorld by code actions, as in the benchmark."""

    name = "appworld"
    license = "Apache-2.0, and AppWorld asks that its tasks are passed on encrypted alone"
    panels = ("validation", "test_normal", "test_challenge")
    functions = False

    def __init__(self) -> None:
        import appworld

        appworld.update_root(str(root()))
        kind = "generated-" if (root() / "data/GENERATED").exists() else ""
        names = [_names(split) for split in SPLITS]
        self.fingerprint = f"appworld-{kind}{version('appworld')}-{content_hash(names)[:12]}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return [_task(name, self.name, split, self.functions) for name in _names(split)]

    def tools(self) -> Sequence[dict[str, Any]]:
        return list(_functions().values()) if self.functions else [EXECUTE]

    def open(self) -> "AppWorldSession":
        return AppWorldSession(self.name, self.functions)

    def category(self, task: Task) -> str:
        return f"difficulty {task.world['difficulty']}"

    def scenario(self, task: Task) -> str:
        """The scenario of ``task``. SGC is the share of scenarios in which every task succeeds."""
        return str(task.world["id"]).rsplit("_", 1)[0]


class AppWorldFunctions(AppWorld):
    """The same tasks by function calls."""

    name = "appworld_functions"
    functions = True


class AppWorldSession(AdapterSession):
    """A world of AppWorld. A process can hold one open world."""

    def __init__(self, name: str, functions: bool) -> None:
        self.environment = name
        self._functions = functions
        self._world: Any = None

    def begin(self, task: Task) -> list[dict[str, Any]]:
        from appworld import AppWorld as World

        self._world = World(str(task.world["id"]), experiment_name=f"coevolve-{os.getpid()}")
        self._world.models.start_db_tracker()
        return list(_functions().values()) if self._functions else [EXECUTE]

    def reset(self, task: Task) -> Observation:
        heard, about = super().reset(task), self._world.task.supervisor
        who = f"I am {about.first_name} {about.last_name}, {about.email}, {about.phone_number}."
        return replace(heard, content=f"{who}\n{self._world.task.instruction}")

    def act(self, call: ToolCall) -> Observation:
        code = _function_code(call) if self._functions else _code(call)
        if code is None:
            return Observation("tool", f"there is no tool {call.name[:60]!r} with these arguments", error=True)
        content = str(self._world.execute(code)).strip()
        return Observation("tool", content, error=content.startswith(FAILED), done=bool(self._world.task_completed()))

    def judge(self, task: Task) -> Score:
        found = self._world.evaluate().to_dict()
        checks = {one["requirement"][:120]: True for one in found["passes"]}
        checks |= {one["requirement"][:120]: False for one in found["failures"]}
        if found["success"]:
            return Score(1.0, checks)
        return Score(PARTIAL * len(found["passes"]) / max(found["num_tests"], 1), checks)

    def digest(self) -> str:
        return content_hash(repr(self._world.models.get_tracked_db_changes()) if self._world else "")

    def close(self) -> None:
        world, self.task, self._world = self._world, None, None
        if world is not None:
            world.close()
            shutil.rmtree(world.base_output_directory, ignore_errors=True)


def _code(call: ToolCall) -> str | None:
    code = call.arguments.get("code")
    fits = (
        call.name == "execute" and set(call.arguments) == {"code"} and isinstance(code, str) and len(code) <= MAX_CODE
    )
    return str(code) if fits else None


def _function_code(call: ToolCall) -> str | None:
    """A documented call as code, with names from the documents and arguments as literals; None for any other call."""
    schema = _functions().get(call.name)
    if schema is None or set(call.arguments) - set(schema["function"]["parameters"]["properties"]):
        return None
    app, _, api = call.name.partition("__")
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    code = f"print(apis.{app}.{api}({arguments}))"
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return None
    return code if len(code) <= MAX_CODE else None


@cache
def _functions() -> dict[str, dict[str, Any]]:
    from appworld.api_docs import prepare_api_docs
    from appworld.apps import get_all_apps

    return {
        doc["function"]["name"]: doc
        for app in get_all_apps(skip_admin=True)
        for doc in prepare_api_docs(app, include_private_apis=False, format="function_calling")
    }


def _names(split: str) -> list[str]:
    file = root() / f"data/datasets/{SPLITS[split]}.txt"
    if not file.exists():
        return []
    return [name for line in file.read_text().splitlines() if (name := line.split(":")[0].strip())]


def _task(name: str, environment: str, split: str, functions: bool) -> Task:
    folder = root() / "data/tasks" / name
    instruction = json.loads((folder / "specs.json").read_text())["instruction"]
    difficulty = json.loads((folder / "ground_truth/metadata.json").read_text()).get("difficulty", 0)
    reference = [] if functions else _solution(folder / "ground_truth/compiled_solution.py")
    if functions and (calls := folder / "ground_truth/function_calls.json").exists():
        reference = [ToolCall(one["name"], one["arguments"]) for one in json.loads(calls.read_text())]
    world = {"id": name, "difficulty": difficulty}
    return Task.create(environment, split, [instruction], world, [reference], [name.rsplit("_", 1)[0]])


def _solution(file: Path) -> list[ToolCall]:
    """The benchmark's solution as one action, if the data holds it: its function, called with the shell's variables of its
    parameters' names."""
    if not file.exists():
        return []
    code = file.read_text()
    made = next(
        (one for one in ast.parse(code).body if isinstance(one, ast.FunctionDef) and one.name == "solution"), None
    )
    if made is None:
        return []
    arguments = ", ".join(one.arg for one in [*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs])
    return [ToolCall("execute", {"code": f"{code}\nsolution({arguments})"})]


# the package's wheel holds encrypted code, which its command unpacks; a process takes 270 MB
CODE = Hosted(
    "appworld",
    f"{__name__}:AppWorld",
    Path(__file__).parents[1] / "requirements/appworld.txt",
    size=4,
    each=1,
    seconds=120.0,
    after=("appworld", "install"),
    within=(("APPWORLD_CACHE", "share/appworld"), ("APPWORLD_ROOT", ".")),
)
FUNCTIONS = replace(CODE, name="appworld_functions", place=f"{__name__}:AppWorldFunctions")
