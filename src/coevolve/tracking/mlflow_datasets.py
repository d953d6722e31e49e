"""Tasks of a file as records of an MLflow evaluation dataset, linked to the traces of failures.

The name of a dataset holds the hash of its file, so the same tasks are logged once and not once per run. The source of a record
is the trace of a failed episode that the first run to log the dataset knows.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coevolve.core.hashing import file_hash
from coevolve.core.io import read_tasks
from coevolve.core.task import Task
from coevolve.core.untrusted import sound

LONGEST = 200  # characters of a file's name in the name of a dataset, which MLflow limits to 255


def log(
    client: Any, experiment: str, path: Path, name: str, failed: Mapping[str, str], traces: Mapping[str, str]
) -> None:
    """Log the tasks of the file ``path`` as ``name``, unless a dataset has them.

    ``failed`` leads from tasks to trajectories, and ``traces`` from trajectories to their traces.
    """
    tasks = read_tasks(path)
    dataset = _dataset(client, experiment, name, file_hash(path))
    logged = json.loads(dataset.profile or "{}").get("num_records", 0)
    if logged < len(tasks):
        sources = {task: traces[trajectory] for task, trajectory in failed.items() if trajectory in traces}
        dataset.merge_records([record(task, sources.get(task.task_id)) for task in tasks])


def record(task: Task, trace: str | None) -> dict[str, Any]:
    """``task`` as MLflow's evaluation reads it: inputs, expectations, tags, and the failure that it comes from."""
    origin = task.provenance
    tags = {"family": task.family, "split": task.split, "environment": task.environment}
    if origin is not None:
        tags |= {"iteration": str(origin.iteration), "exploration_id": origin.exploration_id}
    reference = [f"{call.name}({json.dumps(call.arguments, sort_keys=True)})" for call in task.calls]
    source = {"source_type": "TRACE", "source_data": {"trace_id": trace}} if trace else {"source_type": "CODE"}
    row: dict[str, Any] = sound(
        {
            "inputs": {"instruction": "\n".join(task.turns), "task_id": task.task_id},
            "expectations": {"reference": reference},
            "tags": tags,
        }
    )
    return {**row, "source": source}


def _dataset(client: Any, experiment: str, file: str, digest: str) -> Any:
    """The dataset of the file's content, in the experiment."""
    name = f"{file.removesuffix('.jsonl')[-LONGEST:]} {digest[:8]}"
    [*datasets] = client.search_datasets(filter_string=f"name = '{name}'", max_results=1, order_by=["created_time ASC"])
    if not datasets:
        tags = {"dvc.path": file, "dvc.hash": digest}
        return client.create_dataset(name, experiment_id=[experiment], tags=tags)
    if experiment not in datasets[0].experiment_ids:
        client.add_dataset_to_experiments(datasets[0].dataset_id, [experiment])
    return datasets[0]
