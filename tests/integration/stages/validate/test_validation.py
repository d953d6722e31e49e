"""The ids of all environments survive a file."""

import pytest

from coevolve.core.io import parse
from coevolve.core.task import Task, task_id_of
from coevolve.environments.registry import make
from tests.unit.stages.validate.test_validation import row


@pytest.mark.parametrize("name", ["miniworld", "sql", "bfcl", "bfcl_single"])
def test_task_ids_are_hashes_after_a_round_trip(name: str) -> None:
    for task in make(name).tasks("seed"):
        read = parse(Task, row(task), "row")
        assert task_id_of(read.environment, read.world, read.turns, read.reference) == task.task_id
