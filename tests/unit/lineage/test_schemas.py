"""JSON schemas agree with the readers: a reader accepts every record that its schema accepts."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from coevolve import signals, verify
from coevolve.cli import main
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.records import Candidate, Signal, Verdict
from coevolve.lineage.schemas import schemas
from tests import ROOT

SCHEMAS = schemas()
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}
EXAMPLE = re.compile(r"^### (\w+)\n(?:(?!^##).)*?^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = {
    name.lower(): json.loads(text) for name, text in EXAMPLE.findall((ROOT / "docs/python.md").read_text("utf-8"))
}
READERS: dict[str, Callable[[Path], Any]] = {
    "task": read_tasks,
    "trajectory": signals,
    "candidate": lambda file: read_jsonl(file, Candidate),
    "signal": lambda file: read_jsonl(file, Signal),
    "verdict": lambda file: read_jsonl(file, Verdict),
}
VALUES = (None, True, 1, 2, 0.5, "x", [], ["x"], [[0, "x"]], [{}], {}, {"x": None})


def accepts(name: str, value: Any) -> bool:
    return bool(VALIDATORS[name].is_valid(value))


def variants(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """``value`` with each key, at any depth, removed or set to a value of another type."""
    for key, inner in value.items():
        yield {name: other for name, other in value.items() if name != key}
        yield from ({**value, key: other} for other in VALUES)
        if isinstance(inner, dict):
            yield from ({**value, key: variant} for variant in variants(inner))
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            yield from ({**value, key: [variant, *inner[1:]]} for variant in variants(inner[0]))


@pytest.mark.parametrize("name", READERS)
def test_example_fits_its_schema_and_reader(name: str, tmp_path: Path) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    VALIDATORS[name].validate(EXAMPLES[name])
    write_jsonl(tmp_path / "rows.jsonl", [EXAMPLES[name]])
    READERS[name](tmp_path / "rows.jsonl")


@pytest.mark.parametrize("name", READERS)
def test_reader_accepts_everything_that_the_schema_accepts(name: str, tmp_path: Path) -> None:
    tried = refused = 0
    for variant in variants(EXAMPLES[name]):
        tried += 1
        if not accepts(name, variant):
            refused += 1
            continue
        write_jsonl(tmp_path / "rows.jsonl", [variant])
        try:
            READERS[name](tmp_path / "rows.jsonl")
        except CoevolveError as error:
            pytest.fail(f"{json.dumps(variant)}: {error}")
    assert tried > 60 and refused > tried / 3


def test_candidate_example_passes_the_gates() -> None:
    [(verdict, task)] = verify("miniworld", [EXAMPLES["candidate"]])
    assert verdict.accepted and task is not None


def test_params_yaml_fits_its_schema_and_mistakes_do_not() -> None:
    validator = VALIDATORS["params"]
    Draft202012Validator.check_schema(SCHEMAS["params"])
    values = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    validator.validate(values)
    for wrong in ({"trian": {}}, {"train": {"stepz": 1}}, {"train": {"steps": "many"}}, {"grpo": {"beta": "x"}}):
        assert not validator.is_valid({**values, **wrong}), wrong
    assert set(values) <= set(SCHEMAS["params"]["properties"])


def test_export_schemas_needs_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as done:
        main(["export", "schemas", "--out", "schemas"])
    assert not done.value.code
    written = {file.name: json.loads(file.read_text()) for file in (tmp_path / "schemas").iterdir()}
    assert written == {f"{name}.schema.json": schema for name, schema in SCHEMAS.items()}
