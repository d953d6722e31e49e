"""Each method is a set of defaults that params.yaml overrides, except for the keys that define the method."""

from pathlib import Path
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.stages.schema import Params, load, parse, plain, value
from tests.unit.stages.test_schema import edited

PLAIN = {"explore.guidance": "signals", "generate.model": "none", "train.learner": "grpo", "pairs.hard": 0.5}
GENERATED = {"explore.guidance": "generator", "generate.model": "tiny"}


def made(**values: Any) -> Params:
    return parse({"iterations": [{"t": 0, "next": 1}], **values}, "here")


@pytest.mark.parametrize(
    ("method", "own"), [("coevolve", {}), ("genenv", GENERATED), ("coevolving_agents", {"train.learner": "dpo"})]
)
def test_method_sets_its_defaults_and_nothing_else(tmp_path: Path, method: str, own: dict[str, str]) -> None:
    for params in (made(method=method), load(edited(tmp_path, method=method))):
        assert {key: value(params, key) for key in PLAIN} == {**PLAIN, **own}
        assert params.method == method
    before, after = plain(made()), plain(made(method=method))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {key.partition(".")[0] for key in own} | ({"method"} if own else set())
    assert after == plain(parse(after, "here")), "written out in full, it is the same"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"method": "genenv", "generate": {"model": "models/own"}}, {**GENERATED, "generate.model": "models/own"}),
        ({"method": "genenv", "train": {"learner": "dpo"}}, {**GENERATED, "train.learner": "dpo"}),
        ({"method": "coevolving_agents", "train": {"learner": "sft"}}, {"train.learner": "sft"}),
        ({"method": "coevolving_agents", "pairs": {"hard": 0.25}}, {"train.learner": "dpo", "pairs.hard": 0.25}),
        (
            {"method": "coevolving_agents", "explore": {"guidance": "generator"}, "generate": {"model": "tiny"}},
            {"train.learner": "dpo", **GENERATED},
        ),
        ({"method": "coevolve", "explore": {"guidance": "random"}}, {"explore.guidance": "random"}),
    ],
)
def test_key_overrides_its_method_and_methods_combine(values: dict[str, Any], expected: dict[str, object]) -> None:
    params = made(**values)
    assert {key: value(params, key) for key in PLAIN} == {**PLAIN, **expected}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"method": "genevn"},
            "method: expected one of: coevolve, genenv, coevolving_agents (did you mean 'genenv'?), found 'genevn'; change it",
        ),
        ({"method": ["genenv"]}, "method: Input should be a valid string"),
        (
            {"method": "genenv", "explore__guidance": "random"},
            "method: genenv and explore.guidance: random do not go together: expected generator; remove explore.guidance, or",
        ),
        (
            {"method": "genenv", "generate__model": "none"},
            "method: genenv and generate.model: none do not go together: expected tiny, a path, or a name on the hub; remove",
        ),
        (
            {"method": "coevolving_agents", "train__learner": "grpo"},
            "method: coevolving_agents and train.learner: grpo do not go together: expected a learner that learns from pairs",
        ),
        (
            {"method": "coevolving_agents", "pairs__hard": 0},
            "method: coevolving_agents and pairs.hard: 0 do not go together: expected a share above 0; remove pairs.hard, or",
        ),
    ],
)
def test_mistake_is_a_one_line_error_that_names_the_key(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(CoevolveError) as caught:
        load(edited(tmp_path, **changes))
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/params.yaml: ") and "\n" not in str(caught.value)
