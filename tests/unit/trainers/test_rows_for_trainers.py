"""Tasks as rows of other trainers' datasets, read back with the libraries that those trainers use."""

import json
import tomllib
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coevolve.cli import parser
from coevolve.commands import export
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects, write_jsonl
from coevolve.core.section import read_yaml
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.environments import registry
from coevolve.environments.registry import make
from coevolve.environments.row_environment import RowEnvironment
from coevolve.trainers.rllm_verifier import evaluate
from coevolve.trainers.rows_for_trainers import write

WORLD = make("miniworld")
TASKS = list(WORLD.tasks("validation")[:3])
SYSTEM = {"role": "system", "content": "You are a clerk."}
ROW = {
    "prompt": [SYSTEM, {"role": "user", "content": "Cancel my order."}],
    "task_id": "row-0",
    "id": 7,
    "orders": '{"100": "open"}',
    "limit": 2.5,
    "tags": ["a", "b"],
}


def grown(row: dict[str, Any], words: str) -> Task:
    """A new task in the world of a row."""
    return Task.create("shop", "seed", [words], row, [[ToolCall("cancel", {"number": "100"})]])


def saved(kind: str, rows: list[dict[str, Any]], folder: Path) -> Path:
    """A dataset of a person, in one of the formats."""
    path = folder / {"jsonl": "train.jsonl", "parquet": "train.parquet", "datasets": "train"}[kind]
    if kind == "jsonl":
        write_jsonl(path, rows)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        datasets.Dataset.from_list(rows).save_to_disk(str(path))
    return path


def opened(kind: str, path: Path) -> Any:
    if kind == "datasets":
        return datasets.load_from_disk(str(path))
    reader = datasets.Dataset.from_json if kind == "jsonl" else datasets.Dataset.from_parquet
    return reader(str(path), cache_dir=str(path.parent / "cache"))


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "datasets"])
@pytest.mark.parametrize("prompt", [ROW["prompt"], "Cancel my order.", [{"role": "user", "content": "Cancel."}]])
def test_rows_append_to_the_dataset_of_the_person(kind: str, prompt: Any, tmp_path: Path) -> None:
    rows = [{**ROW, "prompt": prompt}, {**ROW, "prompt": prompt, "task_id": "row-1", "limit": 4.0}]
    known = saved(kind, rows, tmp_path)
    tasks = [grown(row, f"Do it {number} times") for number, row in enumerate(rows)]
    new = write(tasks, known, tmp_path / "out")
    assert new.name == known.name
    both = datasets.concatenate_datasets([opened(kind, known), opened(kind, new)])
    assert both.features == opened(kind, known).features and len(both) == 4
    for task, before, after in zip(tasks, rows, list(both)[2:], strict=True):
        expected = (
            [*prompt[:-1], {"role": "user", "content": task.turns[0]}] if isinstance(prompt, list) else task.turns[0]
        )
        assert after == {**before, "task_id": task.task_id, "prompt": expected}


def test_rows_of_jsonl_keep_the_keys_that_each_row_lacks(tmp_path: Path) -> None:
    """`datasets` 5 tells `reset` of no key that a row of JSONL lacks."""
    rows = [{"prompt": "a", "x": 1}, {"prompt": "b", "x": 2, "y": None}]
    known = saved("jsonl", rows, tmp_path)
    new = write([grown(rows[0], "c"), grown(rows[1], "d")], known, tmp_path / "out")
    assert [row for _, row in read_jsonl_objects(new)] == [{"prompt": "c", "x": 1}, {"prompt": "d", "x": 2, "y": None}]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "datasets"])
def test_tasks_of_another_world_are_no_rows(kind: str, tmp_path: Path) -> None:
    known = saved(kind, [ROW], tmp_path)
    several = Task.create("shop", "seed", ["one", "two"], ROW, [[], []])
    for tasks in (TASKS, [grown(ROW, "c"), several]):
        with pytest.raises(CoevolveError, match="several turns, or its world has other keys"):
            write(tasks, known, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_value_that_does_not_fit_the_table_is_a_one_line_error(tmp_path: Path) -> None:
    known = saved("parquet", [ROW], tmp_path)
    with pytest.raises(CoevolveError, match=r"train\.parquet: the tasks do not fit this Parquet file"):
        write([grown({**ROW, "limit": "none"}, "c")], known, tmp_path / "out")
    with pytest.raises(CoevolveError, match="not a folder of `datasets`"):
        write(TASKS, tmp_path, tmp_path / "out")


@pytest.fixture
def accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "accepted.jsonl", TASKS)
    return tmp_path


def exported(*words: str) -> Path:
    given = ["export", "tasks", "--tasks", "accepted.jsonl", "--environment", "miniworld", "--out", "new", *words]
    assert export.run(parser(["export"]).parse_args(given)) == 0
    return Path("new")


def test_trl_gets_the_columns_of_the_dataset(accepted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved("jsonl", [{"prompt": "a", **TASKS[0].world}], accepted)
    folder = exported("--for", "trl", "--rows", "train.jsonl")
    assert capsys.readouterr().out == "new: train.jsonl, 3 tasks in the columns of train.jsonl\n"
    rows = [row for _, row in read_jsonl_objects(folder / "train.jsonl")]
    assert rows == [{"prompt": task.turns[0], **task.world} for task in TASKS]


class Counter:
    """A class of TRL: a number must end at the goal of the row."""

    def reset(self, goal: int, **row: Any) -> None:
        self.value, self._goal = 0, goal

    def add(self, number: int) -> int:
        """Add a number.

        Args:
            number: The number.
        """
        self.value += number
        return self.value

    def get_reward(self) -> float:
        return float(self.value == self._goal)


COUNTING = {"prompt": "add 3", "goal": 3}


def counted(number: int, provenance: Provenance | None) -> Task:
    """A task in the world of a row whose goal is 3."""
    calls = [ToolCall("add", {"number": number})]
    return Task.create("counter", "seed", [f"add {number}"], COUNTING, [calls], provenance=provenance)


@pytest.mark.parametrize("known", [False, True])
def test_rows_that_the_class_itself_would_not_reward_are_left_out(
    known: bool, accepted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the solution of the known row, the export finds the goal of the new one."""
    write_jsonl(accepted / "known.jsonl", [counted(3, None)])
    environment = RowEnvironment(Counter, str(accepted / "known.jsonl") if known else "")
    monkeypatch.setitem(registry.REGISTERED, "counter", lambda: environment)
    saved("jsonl", [COUNTING], accepted)
    write_jsonl(accepted / "accepted.jsonl", [counted(number, Provenance(1, [], "x")) for number in (3, 4)])
    folder = exported("--for", "trl", "--rows", "train.jsonl", "--environment", "counter")
    rows = [row for _, row in read_jsonl_objects(folder / "train.jsonl")]
    assert rows == [COUNTING, {"prompt": "add 4", "goal": 4}][: 1 + known]
    left = "1 left out, which counter itself would not reward (its reference gets 0)"
    assert (left in capsys.readouterr().out) is not known
    write_jsonl(accepted / "accepted.jsonl", [counted(4, Provenance(1, [], "x"))])
    if not known:
        with pytest.raises(CoevolveError, match="1 tasks which counter itself would not reward"):
            export.run(parser(["export"]).parse_args([*WORDS, "--environment", "counter", "--out", "none"]))


WORDS = ["export", "tasks", "--for", "trl", "--rows", "train.jsonl", "--tasks", "accepted.jsonl"]


def test_verl_finds_its_columns_and_its_tools(accepted: Path) -> None:
    folder = exported("--for", "verl")
    rows = pq.read_table(folder / "train.parquet").to_pylist()
    assert [json.loads(row["extra_info"]["tools_kwargs"]["coevolve"]["task"])["task_id"] for row in rows] == [
        task.task_id for task in TASKS
    ]
    assert {row["agent_name"] for row in rows} == {"tool_agent"}
    tools = read_yaml((folder / "tools.yaml").read_text())["tools"]
    offered = WORLD.open().reset(TASKS[0]).tools
    assert [tool["tool_schema"] for tool in tools] == offered


def chat(task: Task, calls: list[ToolCall]) -> dict[str, Any]:
    """A rollout as rLLM hands it to a verifier."""
    reply = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": str(place), "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for place, call in enumerate(calls)
        ],
    }
    messages = [
        {"role": "user", "content": task.turns[0]},
        *([reply] if calls else []),
        {"role": "assistant", "content": "done"},
    ]
    return {"steps": [{"chat_completions": messages}]}


def test_rllm_scores_rollouts_of_the_exported_rows(accepted: Path) -> None:
    folder = exported("--for", "rllm")
    manifest = tomllib.loads((folder / "dataset.toml").read_text())
    assert manifest["verifier"] == {"import_path": "coevolve.trainers.rllm_verifier:evaluate"}
    assert (folder / "instruction.md.tpl").read_text() == "{{instruction}}\n"
    rows = [row for _, row in read_jsonl_objects(folder / "data/train.jsonl")]
    for row, task in zip(rows, TASKS, strict=True):
        assert row["instruction"] == task.turns[0]
        assert evaluate(row, chat(task, task.calls)) == 1.0 > evaluate(row, chat(task, task.calls[:-1]))
        assert evaluate(row, chat(task, [])) < 1.0 and evaluate(row, {"steps": []}) == 0.0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--for", "verl", "--rows", "train.jsonl"], "--rows: works only with --for trl"),
        (
            ["--for", "trl", "--rows", "train.jsonl"],
            "train.jsonl: a task has several turns, or its world has other keys",
        ),
        (["--for", "trl"], "--for trl: needs --rows DATASET"),
        ([], "--tasks: works only with sft and --for"),
    ],
)
def test_mistake_is_a_one_line_error(words: list[str], message: str, accepted: Path) -> None:
    write_jsonl(accepted / "train.jsonl", [ROW])
    with pytest.raises(CoevolveError, match=message):
        exported(*words)
    assert not Path("new").exists()


def test_tasks_with_several_turns_are_counted_and_left_out(accepted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = TASKS[:2]
    two = Task.create("miniworld", "seed", [*first.turns, "thanks"], first.world, [*first.reference, []])
    write_jsonl(accepted / "accepted.jsonl", [two, second])
    folder = exported("--for", "rllm")
    assert capsys.readouterr().out.endswith("1 tasks of miniworld; 1 with several turns are left out\n")
    assert [row["id"] for _, row in read_jsonl_objects(folder / "data/train.jsonl")] == [second.task_id]
