"""`coevolve.trl_environment`: the class that TRL plays, without its trainer."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers.utils import get_json_schema

import coevolve
from coevolve.core.io import write_jsonl
from coevolve.core.task import Observation, Task
from coevolve.environments.environment import EnvironmentFailed
from coevolve.environments.registry import REGISTERED, make, register
from coevolve.environments.wire import SAY_TOOL
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.session import MiniworldSession

TASKS = make("miniworld").tasks("validation")[:3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "tasks.jsonl", TASKS)
    return tmp_path / "tasks.jsonl"


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(REGISTERED)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def shown(kind: type) -> dict[str, dict[str, Any]]:
    """The tools that TRL shows for an environment class, by its own rule."""
    instance = kind()
    names = [name for name, _ in inspect.getmembers(kind, inspect.isfunction)]
    tools = [name for name in names if name not in ("reset", "get_reward") and not name.startswith("_")]
    return {name: get_json_schema(getattr(instance, name))["function"] for name in tools}


def test_trl_shows_the_very_schemas_of_the_environment() -> None:
    tools = shown(coevolve.trl_environment("miniworld"))
    world = make("miniworld")
    ours = [SAY_TOOL, *(schema["function"] for schema in world.open().reset(world.tasks("seed")[0]).tools or [])]
    assert set(tools) == {one["name"] for one in ours}
    for one in ours:
        parameters = {key: value for key, value in one["parameters"].items() if key != "additionalProperties"}
        parts = {key: {"description": key, **part} for key, part in parameters["properties"].items()}
        written = tools[one["name"]]
        assert written["description"] == one["description"]
        assert written["parameters"]["properties"] == parts
        assert set(written["parameters"].get("required", [])) == set(parameters["required"])


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": name, "description": "Do\n  it", "parameters": parameters}}


class Tooled(Miniworld):
    """Miniworld that shows other tools, one list a task."""

    name = "tooled"
    shown: tuple[Sequence[dict[str, Any]], ...] = ()

    def load_tasks(self, split: str) -> Sequence[Task]:
        return TASKS

    def open(self) -> MiniworldSession:
        return Showing()


class Showing(MiniworldSession):
    def reset(self, task: Task) -> Observation:
        lists = Tooled.shown
        return replace(super().reset(task), tools=list(lists[TASKS.index(task) % len(lists)]))


def test_parts_of_a_schema_beyond_type_hints_are_in_the_description(registry: None, monkeypatch: Any) -> None:
    nested = {"type": "object", "properties": {"x": {"type": "integer"}}}
    parts = {
        "late": {"type": "integer", "minimum": 1, "description": "a number"},
        "place": nested,
        "names": {"type": "array", "items": {"type": "string"}},
        "pairs": {"type": "array", "items": nested},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "level": {"type": "integer", "enum": [1, 2]},
    }
    monkeypatch.setattr(Tooled, "shown", ([tool("list-all", **parts)],))
    register(Tooled)
    written = shown(coevolve.trl_environment("tooled"))["list-all"]
    assert written["description"] == "Do it" and written["parameters"]["required"] == ["late"]
    properties = written["parameters"]["properties"]
    assert properties["late"] == {"type": "integer", "description": 'a number (JSON Schema: {"minimum": 1})'}
    assert properties["place"]["type"] == "object" and '"x": {"type": "integer"}' in properties["place"]["description"]
    assert properties["names"] == {"type": "array", "items": {"type": "string"}, "description": "names"}
    assert properties["pairs"]["type"] == "array" and '"items"' in properties["pairs"]["description"]
    assert "anyOf" in properties["either"]["description"]
    assert properties["level"] == {"type": "integer", "enum": [1, 2], "description": "level"}


@pytest.mark.parametrize(
    ("shown_tool", "message"),
    [
        (tool("reset"), "no model a tool called 'reset'"),
        (tool("_hidden"), "no model a tool called '_hidden'"),
        (tool("move", **{"from": {"type": "string"}}), "move: TRL cannot show an argument 'from'"),
        (tool("move", **{"a b": {"type": "string"}}), "move: TRL cannot show an argument 'a b'"),
    ],
)
def test_tool_that_trl_cannot_show_is_a_one_line_error(
    shown_tool: dict[str, Any], message: str, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tooled, "shown", ([shown_tool],))
    register(Tooled)
    with pytest.raises(coevolve.CoevolveError, match=message):
        coevolve.trl_environment("tooled")


def test_tasks_with_other_tools_of_one_name_are_a_one_line_error(
    registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, other = tool("move", place={"type": "string"}), tool("move", room={"type": "string"})
    monkeypatch.setattr(Tooled, "shown", ([place], [place, tool("stay")]))
    register(Tooled)
    assert set(shown(coevolve.trl_environment("tooled"))) == {"move", "say", "stay"}
    monkeypatch.setattr(Tooled, "shown", ([place], [other]))
    with pytest.raises(coevolve.CoevolveError, match=f"task {TASKS[1].task_id} has another tool move"):
        coevolve.trl_environment("tooled")


def test_reference_scores_one_and_a_part_of_it_less(file: Path) -> None:
    world: Any = coevolve.trl_environment("miniworld", tasks=file)()
    for task in TASKS:
        assert world.reset(task_id=task.task_id, prompt="of the row") is None
        start = world.get_reward()
        for call in task.calls:
            getattr(world, call.name)(**call.arguments)
        assert world.get_reward() == 1.0 > start


def test_refused_call_is_an_answer_that_says_error(file: Path) -> None:
    world: Any = coevolve.trl_environment("miniworld", tasks=file)()
    world.reset(task_id=TASKS[0].task_id)
    assert world.find_contact().startswith("error: ")
    assert world.find_contact(name=float("nan")).startswith("error: arguments must be JSON")
    assert world.say(text="done") == "" and world.get_reward() < 1.0


def test_dataset_holds_the_prompt_and_the_id_of_each_task(file: Path) -> None:
    rows = coevolve.trl_environment("miniworld", tasks=file).train_dataset()
    assert rows["task_id"] == [task.task_id for task in TASKS]
    assert rows[0]["prompt"] == [{"role": "user", "content": TASKS[0].turns[0]}]


def test_without_rows_the_rollouts_of_a_group_get_one_task(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = coevolve.trl_environment("miniworld", tasks=file, num_generations=2)
    prompts = [kind().reset(prompt=[]) for _ in range(8)]
    first, second, third = (task.turns[0] for task in TASKS)
    assert prompts == [first, first, second, second, third, third, first, first]
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(coevolve.CoevolveError, match="train_dataset"):
        kind().reset()


def test_unknown_task_of_a_row_is_a_one_line_error(file: Path) -> None:
    world = coevolve.trl_environment("miniworld", tasks=file)()
    with pytest.raises(coevolve.CoevolveError, match="task_id 'x' is none of the 3 tasks of miniworld"):
        world.reset(task_id="x")
    with pytest.raises(coevolve.CoevolveError, match="call reset"):
        world.say(text="hello")  # type: ignore[attr-defined]


class Breaking(MiniworldSession):
    def step(self, call: Any) -> Observation:
        Broken.gone = True
        raise EnvironmentFailed("the server is gone")


class Broken(Tooled):
    name = "broken"
    gone = False

    def open(self) -> MiniworldSession:
        if Broken.gone:
            raise EnvironmentFailed("the server is gone")
        return Breaking()


def test_rollout_of_a_failed_environment_has_no_reward(registry: None) -> None:
    register(Broken)
    world: Any = coevolve.trl_environment("broken")()
    world.reset(task_id=TASKS[0].task_id)
    with pytest.raises(EnvironmentFailed):
        world.find_contact(name="Ada")
    assert world.get_reward() is None
