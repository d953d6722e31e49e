"""Experiments in DVC's queue get exactly the parameters that a study sets."""

from typing import Any

import pytest
from dvc.exceptions import InvalidArgumentError
from dvc.utils.hydra import apply_overrides
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from coevolve.core.section import one_line
from studies.run_queue import parameters, quoted

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"])).filter(
    lambda text: "${" not in text
)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
names = st.sampled_from(["a", "keep", "max_kl", "steps"])
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, min_size=1, max_size=2),
    max_leaves=5,
)


@given(value=values, old=values)
@example(value=["5", "null", "true", "x,y", "a=b", "[1]", "\\", 'a\\"', "#", "~"], old=None)
@example(value={"keep": 3}, old={"keep": 1, "steps": 2})
def test_dvc_sets_the_parameters_of_an_arm(tmp_path_factory: pytest.TempPathFactory, value: Any, old: Any) -> None:
    """DVC merges a mapping into that of params.yaml, and so does an arm."""
    file = tmp_path_factory.mktemp("project") / "params.yaml"
    before = {"key": 1, "section": {"key": old}}
    YAML().dump(before, file)
    try:
        apply_overrides(file, [f"++section.key={one_line(value, quoted)}"])
    except InvalidArgumentError:
        assert "[" in f"{value} {old}", "DVC only refuses to put a list for a mapping, or a mapping for a list"
        return
    assert YAML(typ="safe").load(file.read_text()) == parameters(before, {"section.key": value})
