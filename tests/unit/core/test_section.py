"""YAML is read as DVC reads it, and a mistake is one line that names the file and the line."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.section import load_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: *b", "line 1: expected YAML .*undefined alias"),
        ("a: !!python/object/apply:os.system [true]", "line 1: .*could not determine a constructor"),
        ("a: 1\n\na: 2", "line 3: .*duplicate key"),
        ("a: 1\n---\nb: 2", "line 2: .*found another document"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: " + "{b: " * 5000 + "}" * 5000, "nested too deeply"),
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
