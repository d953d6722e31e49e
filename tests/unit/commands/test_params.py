"""`coevolve params --stage` lists the keys on which the digest of a stage depends, and no others."""

import pytest

from coevolve.core.section import put, read_yaml
from coevolve.stages.code.digest import digest, names
from coevolve.stages.schema import Params, parse
from tests import ROOT
from tests.cli import coevolve

KEYS = {
    "seed": 9,
    "train.steps": 7,
    "grpo.beta": 0.7,
    "signals.window": 9,
    "explore.explorations": 900,
    "evaluate.bootstrap": 50,
    "report.traces": 3,
    "tracking.experiment": "other",
}


def listed(*words: str) -> list[str]:
    lines = coevolve("params", *words, cwd=ROOT).stdout.splitlines()
    return [line.partition(":")[0] for line in lines if ":" in line and not line.startswith((" ", "Set"))]


@pytest.mark.parametrize("stage", names())
def changed(given: dict[str, object]) -> Params:
    values = read_yaml((ROOT / "params.yaml").read_text())
    put(values, given)
    return parse(values, "params.yaml")


@pytest.mark.parametrize("stage", names())
def test_a_key_is_listed_if_and_only_if_its_change_runs_the_stage_again(stage: str) -> None:
    keys, before = listed("--stage", stage), digest(stage, changed({}))["params"]
    for key, value in KEYS.items():
        runs_again = digest(stage, changed({key: value}))["params"] != before
        follows = "candidates" in keys and key == "explore.explorations"  # a property of the parameters
        assert runs_again == (key in keys or follows), key


def test_properties_follow_the_keys_of_a_stage() -> None:
    assert listed("--stage", "train")[-1] == "trains" and "dpo.learning_rate" not in listed("--stage", "train")
    assert (
        "grpo.beta" in listed("--stage", "train")
        and listed("train.lora", "--stage", "train")[0] == "train.lora.enabled"
    )


def test_a_stage_that_reads_no_such_key_is_an_error_of_one_line() -> None:
    done = coevolve("params", "train", "--stage", "signals", cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == "error: stage signals reads no key of 'train'; `coevolve params` prints all\n"
