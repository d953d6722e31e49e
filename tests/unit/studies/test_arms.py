"""Whether a run had the parameters of its arm, whichever of the two files set them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.yaml_files import load_yaml
from coevolve.stages.schema import parse, plain
from coevolve.studies.arms import APART, departure, further, parameters, unsaid
from tests import ROOT

THEN = {"seed": 0, "explore": {"count": 256, "as": 1}, "verify": {"select": None}, "report": {"panel": "a"}}
NOW = {"seed": 1, "explore": {"count": 768, "as": 1}, "verify": {"select": {"keep": 8}}, "report": {"panel": "b"}}


@pytest.mark.parametrize(
    ("ran", "arm", "found"),
    [
        ({}, {"explore.count": 256, "verify.select": None}, None),  # pinned to what was the default
        ({"explore.count": 768, "verify.select": {"keep": 8}}, {}, None),  # what it changed is the default now
        ({"explore.count": 768}, {}, "verify.select None, not {'keep': 8}"),
        ({"verify.select": {"keep": 9}}, {"explore.count": 256}, "verify.select.keep 9, not 8"),
        ({"explore.other": 1}, {"explore.count": 256, "verify.select": None}, None),  # a key that is no more
        ({"seed": 7, "report.panel": "c"}, {"explore.count": 256, "verify.select": None}, None),
    ],
)
def test_run_belongs_to_its_arm_by_all_parameters(ran: dict[str, Any], arm: dict[str, Any], found: str | None) -> None:
    assert departure(parameters(THEN, ran), parameters(NOW, arm)) == found


FILE = load_yaml(ROOT / "params.yaml", "the project's")
# keys that params.yaml names, keys that it leaves out, values that are the defaults, and the two forms of a mapping
VALUES: dict[str, list[Any]] = {
    "train.steps": [20, 40],
    "train.curriculum": ["learnable", "even"],
    "train.learner": ["grpo", "sft"],
    "explore.guidance": ["signals", "random"],
    "signals.window": [5, 7],
    "verify.select": [None, {"keep": 8}, {"keep": 8, "shape": "bell"}],
    "verify.enabled": [True, False],
    "environment": ["miniworld", {"miniworld": 0.5, "sql": 0.5}, {"miniworld": 0.25, "sql": 0.75}],
    "report.panel": ["test", "validation"],
}
CHANGES = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()})


def resolved(changes: dict[str, Any]) -> dict[str, Any]:
    whole = plain(parse(parameters(FILE, changes), "arm"))
    return {key: value for key, value in whole.items() if key not in APART}


@given(CHANGES, CHANGES)
def test_run_belongs_to_an_arm_only_if_all_parameters_are_equal(ran: dict[str, Any], arm: dict[str, Any]) -> None:
    found = departure(parameters(FILE, ran), parameters(FILE, arm), ran)
    assert (found is None) == (resolved(ran) == resolved(arm)), found


def test_defaults_of_a_method_are_no_changes() -> None:
    ran = {"method": "coevolving_agents"}
    assert departure(parameters(FILE, ran), parameters(FILE, {**ran, "train.learner": "dpo"}), ran) is None


def test_uncommitted_edit_is_listed_among_the_changes_of_the_run() -> None:
    arm = {"explore.guidance": "random", "verify.select": {"keep": 8}}
    ran = parameters(FILE, {**arm, "train.steps": 40, "signals.window": 7, "seed": 3})
    assert further(parameters(FILE, arm), ran) == {"train.steps": 40, "signals.window": 7}


def test_mapping_that_dvc_would_merge_is_refused() -> None:
    file = {**FILE, "environment": {"miniworld": 0.5, "sql": 0.5}}
    assert unsaid(file, {"environment": {"textworld": 1.0, "sql": 0.0}}) == (
        "environment: DVC would keep environment.miniworld of params.yaml; name every key of environment"
    )
    assert unsaid(file, {"environment": {"miniworld": 0.1, "sql": 0.9}, "verify.select": None}) is None
    assert unsaid(FILE, {"environment": {"textworld": 1.0}}) is None
