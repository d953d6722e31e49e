"""Lineage: the task that the beginning of an id names."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.task import Task, ToolCall
from coevolve.lineage.ancestry import of_task


def test_beginning_of_an_id_is_unique_over_all_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [Task.create("e", "seed", [str(n)], {}, [[ToolCall("pay")]], []) for n in range(200)]
    first = made[0]
    later = next(task for task in made[1:] if task.task_id[0] == first.task_id[0])
    write_jsonl(Paths.tasks(0), [first])
    write_jsonl(Paths.tasks(1), [first, later])
    with pytest.raises(CoevolveError, match="2 tasks begin with this; give more of the id"):
        of_task(first.task_id[0])
    assert first.task_id in str(of_task(first.task_id).label) and "datasets 0 to 1" in str(
        of_task(first.task_id[:12]).label
    )
    assert "datasets 1 to 1" in str(of_task(later.task_id[:12]).label)
