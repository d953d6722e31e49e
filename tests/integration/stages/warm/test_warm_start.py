"""A warm start on the committed tiny policy learns, ends in the same bytes after a kill, and stops a run that could learn nothing."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from coevolve.core.io import read_json
from coevolve.policies.transformers_policy import load
from coevolve.stages.warm.config import NEW_WORDS
from coevolve.stages.warm.warm_start import Demonstrations
from tests import POLICY
from tests.integration.commands.test_init import OWN as LAMP
from tests.integration.commands.test_init import coevolve, make
from tests.unit.stages.train.small import outputs, stop_at
from tests.unit.stages.warm.test_warm_start import OWN, found, warm  # noqa: F401  (a fixture)


def test_warm_start_learns_and_a_killed_run_ends_with_the_same_bytes(
    found: Demonstrations,  # noqa: F811
    tmp_path: Path,
) -> None:
    losses: dict[int, float] = {}
    warm(tmp_path / "whole", found, log=lambda step, figures: losses.update({step: figures["loss"]}))
    assert list(losses) == [0, 1, 2, 3, 4]
    before, after = ((folder / "model.safetensors").read_bytes() for folder in (POLICY, tmp_path / "whole/policy"))
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


def test_policy_that_solves_nothing_stops_before_the_loop(tmp_path: Path) -> None:
    (tmp_path / "my_lamp.py").write_text(LAMP)
    project = make(tmp_path / "mine", "--environment", f"{tmp_path / 'my_lamp.py'}:MyEnvironment")
    file = project / "params.yaml"
    params = yaml.safe_load(file.read_text())

    def warm_start(steps: int) -> subprocess.CompletedProcess[str]:
        file.write_text(yaml.safe_dump({**params, "warm": {**params["warm"], "steps": steps}}))
        coevolve("stage", "code", cwd=project)
        return coevolve("stage", "warm", cwd=project)

    for stage in ("code", "base", "tasks"):
        coevolve("stage", stage, cwd=project)
    asked = f"warm.steps is 0, but base.model: tiny must learn the words of lamp: set warm to {json.dumps(NEW_WORDS)}"
    assert asked in warm_start(0).stderr
    stopped = warm_start(1)
    assert stopped.returncode == 1 and "Traceback" not in stopped.stderr
    assert "warm.steps is 1 and success on 1 held-out training tasks is still 0" in stopped.stderr
    assert "try 300" in stopped.stderr and "--model" in stopped.stderr and not (project / "policies/0").exists()
    note = r"policies/0 solves 1.00 of 1 held-out training tasks, after \d+ of 300 warm.steps \(warm.until: 0.5\)"
    note += "; most groups of attempts will teach nothing: lower warm.until, or choose harder tasks"
    assert re.search(note, warm_start(300).stdout)
    assert any(re.match(note, one) for one in read_json(project / "data/0/summary/warm.json")["notes"])
