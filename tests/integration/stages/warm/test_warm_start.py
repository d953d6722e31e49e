"""A warm start on the committed tiny policy learns, and a killed run ends in the same bytes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coevolve.policies.transformers_policy import load
from coevolve.stages.warm.warm_start import Demonstrations
from tests import ROOT
from tests.unit.stages.train.small import outputs, stop_at
from tests.unit.stages.warm.test_warm_start import OWN, found, warm  # noqa: F401  (a fixture)


def test_warm_start_learns_and_a_killed_run_ends_with_the_same_bytes(
    found: Demonstrations,  # noqa: F811
    tmp_path: Path,
) -> None:
    losses: dict[int, float] = {}
    warm(tmp_path / "whole", found, log=lambda step, figures: losses.update({step: figures["loss"]}))
    assert list(losses) == [0, 1, 2, 3, 4]
    before, after = (
        (folder / "model.safetensors").read_bytes() for folder in (ROOT / "policies/base", tmp_path / "whole/policy")
    )
    assert before != after
    with pytest.raises(KeyboardInterrupt):
        warm(tmp_path / "again", found, log=stop_at(2))
    assert list((tmp_path / "again/scratch").glob("checkpoint-*"))
    warm(tmp_path / "again", found)
    assert outputs(tmp_path / "again/policy") == outputs(tmp_path / "whole/policy")


def test_adapters_are_merged(
    found: Demonstrations,  # noqa: F811
    tmp_path: Path,
) -> None:
    warm(tmp_path, found, OWN.model_copy(update={"steps": 1, "adapters": True}))
    assert (tmp_path / "policy/model.safetensors").exists() and not list(tmp_path.rglob("adapter_config.json"))[1:]
    load(tmp_path / "policy")


def test_warm_start_ends_when_the_model_is_able(
    found: Demonstrations,  # noqa: F811
    tmp_path: Path,
) -> None:
    """A run that is killed after the last look, before it saves the policy, ends with the same bytes."""
    whole, again = ([False, False, True], [False, False, True, True])

    def able(answers: list[bool]) -> Callable[[object, object], bool]:
        return lambda model, tokenizer: answers.pop(0)

    assert warm(tmp_path / "whole", found, able=able(whole)) == 3 and not whole
    with pytest.raises(KeyboardInterrupt):
        warm(tmp_path / "again", found, log=stop_at(2), able=able(again))
    assert warm(tmp_path / "again", found, able=able(again)) == 3 and not again
    assert outputs(tmp_path / "again/policy") == outputs(tmp_path / "whole/policy")
