"""Whether a run had the parameters of its arm."""

from typing import Any

import pytest

from studies.run_queue import parameters
from studies.study_runs import departure

FILE = {"seed": 0, "explore": {"count": 256, "as": 1}, "verify": {"select": None}, "report": {"panel": "a"}}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, None),
        ({"explore.count": 768}, "explore.count 768, not 256"),
        ({"verify.select": {"keep": 9}}, "verify.select absent, not None"),
        ({"train.steps": 1}, "train.steps 1, not absent"),
        ({"seed": 7, "report.panel": "c", "compute.engine": "ray"}, None),  # they cannot change a policy
    ],
)
def test_run_belongs_to_its_arm_by_all_parameters(changes: dict[str, Any], found: str | None) -> None:
    assert departure(parameters(FILE, changes), FILE) == found


def test_keys_that_params_yaml_named_at_another_time_can_be_left_out() -> None:
    now = {"explore": {"count": 256, "new": 5}}
    assert departure(FILE, now, shared=True) is None
    assert departure(FILE, {"explore": {"count": 1}}, shared=True) == "explore.count 256, not 1"
