"""Tasks as rows of other trainers' datasets. `coevolve export tasks --for NAME` writes them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.io import read_jsonl_objects, write_json, write_jsonl, write_text
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.row_environment import RowEnvironment, read_dataset
from coevolve.trainers.new_answers import NewAnswers, asking
from coevolve.trainers.replay import shared_tools

IDS = ("task_id", "id")  # columns that name a task: a new task gets a new name

DATASET = """\
[dataset]
name = {name}
instruction_field = "instruction"

[verifier]
import_path = "coevolve.trainers.rllm_verifier:evaluate"
"""


def write(tasks: Sequence[Task], rows: Path, folder: Path) -> Path:
    """Write ``tasks`` to ``folder`` in the columns and the format of the dataset ``rows``, to which they can be appended.

    ``rows`` is JSONL, Parquet or a folder that `datasets` saved. In `prompt`, the task's instruction replaces the last message.
    The columns `task_id` and `id` hold the task's id if they hold texts, and each other column its value in the task's world. A task
    that cannot be such a row is a CoevolveError.
    """
    if rows.is_dir():
        return _saved(tasks, rows, folder)
    return _table(tasks, rows, folder) if rows.suffix == ".parquet" else _lines(tasks, rows, folder)


def append(
    tasks: Sequence[Task], environment: Environment, rows: Path, folder: Path, known: Sequence[Task] = ()
) -> str:
    """Write those ``tasks`` that the class of the rows rewards. Returns a line on what was written, and one on what was not.

    The columns hold the answers to the new requests where ``known``, the tasks of the rows with references, tell how. Raises a
    CoevolveError that says why if there is nothing to write.
    """
    kept, refused = list(tasks), list[str]()
    if isinstance(environment, RowEnvironment):
        if not environment.rewards:
            raise CoevolveError(
                f"{environment.name} has no get_reward, so nothing tells whether your reward function finds the right answer "
                "in a new row; coevolve.trl_environment plays and scores all tasks"
            )
        answers = NewAnswers(environment, known)
        found = [answers.row(task) for task in tasks]
        kept = [row for row, _ in found if row is not None]
        refused = [reason for row, reason in found if row is None]
    hint = f"{environment.name} itself would not reward ({refused[0]})" if refused else ""
    if not kept:
        raise CoevolveError(f"{len(refused)} tasks which {hint}; coevolve.trl_environment plays and scores all tasks")
    write(kept, rows, folder)
    left = f"\n{len(refused)} left out, which {hint}; coevolve.trl_environment plays all tasks"
    return f"{rows.name}, {len(kept)} tasks in the columns of {rows}{left if refused else ''}"


def _lines(tasks: Sequence[Task], rows: Path, folder: Path) -> Path:
    columns: dict[str, Any] = {}
    for _, row in read_jsonl_objects(rows):
        columns = {**row, **columns}
    write_jsonl(folder / rows.name, _rows(tasks, columns, rows))
    return folder / rows.name


def _table(tasks: Sequence[Task], rows: Path, folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(rows)
        first = next(file.iter_batches(1), None)
        columns = dict.fromkeys(file.schema_arrow.names) if first is None else first.to_pylist()[0]
        table = pa.Table.from_pylist(_rows(tasks, columns, rows), file.schema_arrow)
    except (pa.ArrowException, OSError) as error:
        raise CoevolveError(f"{rows}: the tasks do not fit this Parquet file ({first_line(error)})") from None
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / rows.name)
    return folder / rows.name


def _saved(tasks: Sequence[Task], rows: Path, folder: Path) -> Path:
    from datasets import Dataset

    known = read_dataset(rows)
    new = _rows(tasks, known[0] if len(known) else dict.fromkeys(known.column_names), rows)
    Dataset.from_list(new, features=known.features).save_to_disk(str(folder / rows.name))
    return folder / rows.name


def _rows(tasks: Sequence[Task], columns: Mapping[str, Any], rows: Path) -> list[dict[str, Any]]:
    """The tasks with the ``columns`` of ``rows``, which are given with an example."""
    if not all(len(task.turns) == 1 and task.world.keys() <= columns.keys() for task in tasks):
        raise CoevolveError(
            f"{rows}: a task has several turns, or its world has other keys than the columns; name the dataset that the "
            "tasks grew from"
        )
    return [
        {
            **task.world,
            **{key: task.task_id for key in IDS if isinstance(columns.get(key), str)},
            **(
                {"prompt": asking(task.world.get("prompt", columns["prompt"]), task.turns[0])}
                if "prompt" in columns
                else {}
            ),
        }
        for task in tasks
    ]


def verl(tasks: Sequence[Task], environment: Environment, name: str, folder: Path) -> str:
    """verl's rows and its tool configuration, which is YAML that is also JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "data_source": f"coevolve/{environment.name}",
            "agent_name": "tool_agent",
            "prompt": [{"role": "user", "content": task.turns[0]}],
            "ability": "tools",
            "reward_model": {"style": "rule", "ground_truth": task.task_id},
            "extra_info": {
                "index": index,
                "need_tools_kwargs": True,
                "tools_kwargs": {"coevolve": {"environment": name, "task": _json(task)}},
            },
        }
        for index, task in enumerate(tasks)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "train.parquet")
    tools = [
        {
            "class_name": "coevolve.trainers.verl_tools.CoevolveTool",
            "config": {"type": "native"},
            "tool_schema": {"type": "function", "function": function},
        }
        for function in shared_tools(environment, tasks)
    ]
    write_json(folder / "tools.yaml", {"tools": tools})
    return "train.parquet and tools.yaml"


def rllm(tasks: Sequence[Task], environment: Environment, name: str, folder: Path) -> str:
    """rLLM's rows with a shared verifier."""
    rows = [
        {"id": task.task_id, "instruction": task.turns[0], "environment": name, "task": _json(task)} for task in tasks
    ]
    write_jsonl(folder / "data/train.jsonl", rows)
    write_text(folder / "dataset.toml", DATASET.format(name=json.dumps(folder.name)))
    write_text(folder / "instruction.md.tpl", "{{instruction}}\n")
    return "dataset.toml, instruction.md.tpl and data/train.jsonl"


def _json(task: Task) -> str:
    """A task as text, because tables give all rows the keys of each row's world."""
    return json.dumps(asdict(task), ensure_ascii=False)
