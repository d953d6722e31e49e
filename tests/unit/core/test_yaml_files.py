"""YAML is read as DVC reads it, and a mistake is one line that names the file and the line."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from coevolve.core.errors import CoevolveError
from coevolve.core.yaml_files import load_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: *b", "line 1: expected YAML .*undefined alias"),
        ("a: !!python/object/apply:os.system [true]", "line 1: .*could not determine a constructor"),
        ("a: 1\n\na: 2", "line 3: .*duplicate key"),
        ("a: 1\n---\nb: 2", "line 2: .*found another document"),
        ("- 1", "expected sections with keys, found list"),
    ],
)
def test_a_mistake_is_one_line_that_names_file_and_line(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(text)
    with pytest.raises(CoevolveError, match=reason) as caught:
        load_yaml(file, "make it")
    assert str(caught.value).startswith(f"{file}: ") and "\n" not in str(caught.value)


def test_aliases_and_merges_are_read() -> None:
    text = "base: &base {steps: 10, rate: 1e-05}\narms: [*base, {<<: *base, steps: 20}]\nlast: *base\n"
    base = {"steps": 10, "rate": 1e-05}
    assert read_yaml(text) == {"base": base, "arms": [base, {**base, "steps": 20}], "last": base}
    assert read_yaml("") is None


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"])), inner, max_size=3
        )
    ),
    max_leaves=9,
)


@given(VALUES)
def test_every_json_value_survives_a_round_trip(value: Any) -> None:
    text = StringIO()
    YAML(typ="safe", pure=True).dump({"a": value}, text)
    assert read_yaml(text.getvalue()) == {"a": value}
