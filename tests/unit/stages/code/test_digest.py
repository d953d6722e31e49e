"""A stage's digest: the code that the stage runs and the parameters that it reads."""

from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.section import load_yaml
from coevolve.stages.code.digest import digest, names, reads
from coevolve.stages.schema import Params, load, parse
from tests import ROOT

PARAMS = load(ROOT / "params.yaml")
TRAIN = "coevolve/stages/train"


def changed(**sections: Any) -> Params:
    """The parameters of params.yaml with some sections changed."""
    raw = load_yaml(ROOT / "params.yaml", "")
    for name, value in sections.items():
        raw[name] = {**raw.get(name, {}), **value} if isinstance(value, dict) else value
    return parse(raw, "params.yaml")


def test_stage_reads_the_keys_that_its_module_mentions(tmp_path: Path) -> None:
    file = tmp_path / "stage.py"
    file.write_text(
        "def main(params):\n"
        "    f(params.train.lora.rank, params.signals, params.signals.window, params.seed)\n"
        "    g(params.validate_.max_calls, params.learner, params.tracking, params.compute.engine, other.verify)\n"
    )
    assert reads(file) == {"train.lora", "signals", "seed", "validate.max_calls", "learner"}
    file.write_text("def main(params):\n    f(params.moon)\n")
    with pytest.raises(CoevolveError, match=r"params\.moon is not a section"):
        reads(file)


def test_only_modules_chosen_by_the_parameters_count() -> None:
    def code(stage: str, params: Params) -> set[str]:
        return set(digest(stage, params)["code"])

    by_pairs = code("train", changed(train={"learner": "dpo"}))
    assert f"{TRAIN}/dpo.py" in by_pairs and f"{TRAIN}/grpo.py" not in by_pairs
    assert f"{TRAIN}/grpo.py" in code("train", PARAMS)
    asking = code("explore", changed(explore={"explorer": "endpoint"}))
    assert {"coevolve/stages/explore/endpoint_explorer.py", "coevolve/endpoint/client.py"} <= asking
    assert "coevolve/stages/explore/scripted_explorer.py" not in asking
    writing = code("synthesize", changed(synthesize={"synthesizer": "endpoint"}))
    assert "coevolve/stages/synthesize/endpoint_synthesizer.py" in writing


def test_method_equals_its_defaults_written_out() -> None:
    """A digest holds the values that a method sets. The same values set by other keys rerun nothing."""
    named = changed(method="coevolving_agents")
    by_hand = changed(train={"learner": "dpo"})
    assert all(digest(stage, named) == digest(stage, by_hand) for stage in names())
    assert digest("train", named) != digest("train", PARAMS)


def test_learner_depends_only_on_its_own_section() -> None:
    assert digest("train", changed(dpo={"beta": 0.9})) == digest("train", PARAMS)
    assert digest("train", changed(grpo={"beta": 0.9})) != digest("train", PARAMS)


def test_tracking_and_compute_change_no_digest() -> None:
    other = changed(tracking={"experiment": "another"}, compute={"engine": "ray"})
    assert all(digest(stage, other) == digest(stage, PARAMS) for stage in names())
