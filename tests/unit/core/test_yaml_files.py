"""YAML holds what JSON can hold, in bounded time; anything else is one line that names the file and the key."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.yaml_files import load_yaml, read_yaml, write_yaml

BOMB = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)), "b: *a9"]
)
MERGE_BOMB = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 10))]
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "a4: has 20503 values with aliases written out; expected at most 10000"),
        (MERGE_BOMB, "a4.<<: has 14761 values with aliases written out; expected at most 10000"),
        ("a: &a [1, *a]", r"a\[1\]: is an alias of itself; write its value out"),
        ("a: &a {b: {c: *a}}", "a.b.c: is an alias of itself"),
        ("a: *b", "undefined alias"),
        ("a: !!int x", "a: expected a number of at most 64 bits"),
        ('"a\\nb": .inf', "a b: a number is out of range"),
        (f"{'k' * 500}: .inf", "k" * 60 + ": a number"),
        ("a: {b: 2024-01-01}", "a.b: the YAML type timestamp is not allowed; put a text in quotes"),
        ("a: [1, .inf]", r"a\[1\]: a number is out of range"),
        ("a: -.inf", "a: a number is out of range"),
        ("a: .nan", "a: a number is out of range"),
        ("a: 1e999", "a: a number is out of range"),
        (f"seed: {'9' * 5000}", "seed: expected a number of at most 64 bits"),
        (f"seed: {2**64}", "seed: a number has more than 64 bits"),
        ("a: !!binary aGk=", "a: the YAML type binary is not allowed"),
        ("a: !!set {x}", "a: the YAML type set is not allowed"),
        ("a: !!python/object/apply:os.system [true]", "a: the YAML type python/object/apply:os.system is not allowed"),
        ("a: !mine 1", "a: the YAML type !mine is not allowed"),
        ("{1: 2}", "the file: line 1: expected a text as key"),
        ("a:\n  2024-01-01: 2", "a: line 2: expected a text as key"),
        ("a: {[b]: 1}", "a: line 1: expected a text as key"),
        ('"\\0": 1', "the file: line 1: expected a text as key"),
        ('a: "\\0"', "a: a text holds a NUL"),
        ('a: "\\ud800"', "a: a text holds half of a surrogate pair|expected YAML"),
        ("a: " + "[" * 100_000, "maximum depth"),
        ("a: " + "{b: " * 500, "maximum depth"),
        ("a: 1\na: 2", "duplicate key"),
        ("a: 1\n---\nb: 2", "single document"),
        ("a: [", "expected YAML"),
        ("x" * 250_001, "250001 characters, expected at most 250000"),
    ],
)
def test_a_strange_value_is_one_line_that_names_file_and_key(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(text)
    with pytest.raises(CoevolveError, match=reason) as caught:
        load_yaml(file, "make it")
    assert str(caught.value).startswith(f"{file}: ") and "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_aliases_and_merges_of_a_usual_size_are_read() -> None:
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
def test_every_value_of_json_is_read_as_it_was_written(value: Any) -> None:
    assert read_yaml(write_yaml({"a": value})) == {"a": value}


@given(st.text("ab01.-_:,[]{}&*!<>|'\"#?%@ \n\t~\\", max_size=40))
def test_any_text_is_a_json_value_or_one_line(text: str) -> None:
    try:
        value = read_yaml(text)
    except CoevolveError as error:
        assert "\n" not in str(error)
        return
    left = [value]
    while left:
        item = left.pop()
        assert item is None or isinstance(item, str | int | float | list | dict)
        assert not isinstance(item, float) or math.isfinite(item)
        left += [*item, *item.values()] if isinstance(item, dict) else item if isinstance(item, list) else []
