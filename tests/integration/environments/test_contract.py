"""Our environments that run calls in processes keep the contract, and the ids of their tasks survive a file. test_hosted.py has
the hosted ones.
"""

from importlib.util import find_spec

import pytest

from coevolve.core.io import parse
from coevolve.core.task import Task, task_id_of
from coevolve.environments.registry import make
from tests.contract import violations
from tests.unit.stages.validate.test_validation import row

NAMES = ["sql", *(("bfcl", "bfcl_single") if find_spec("bfcl_eval") else ())]


@pytest.mark.parametrize("name", NAMES)
def test_environment_keeps_the_contract(name: str) -> None:
    assert violations(make(name), 10) == {}


@pytest.mark.parametrize("name", ["miniworld", "sql", "bfcl", "bfcl_single"])
def test_task_ids_are_hashes_after_a_round_trip(name: str) -> None:
    for task in make(name).tasks("seed"):
        read = parse(Task, row(task), "row")
        assert task_id_of(read.environment, read.world, read.turns, read.reference) == task.task_id
