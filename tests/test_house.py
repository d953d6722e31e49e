"""params.yaml and pipelines/ keep their promise: nothing unread, nothing without its stage."""

import ast

import yaml

from tests import ROOT


def keys(raw: dict[str, object]) -> list[str]:
    found = []
    for key, value in raw.items():
        found.extend(keys(value) if isinstance(value, dict) else [key])
    return found


def test_every_key_has_a_reader() -> None:
    read: set[str] = set()
    for file in [*(ROOT / "src").rglob("*.py"), *(ROOT / "pipelines").glob("*.py")]:
        if file.name == "params.py":
            continue
        read |= {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
    unread = [key for key in keys(yaml.safe_load((ROOT / "params.yaml").read_text())) if key not in read]
    assert not unread, f"no code reads these keys of params.yaml: {unread}"


def test_every_section_is_a_stage_or_shared() -> None:
    stages = {file.stem for file in (ROOT / "pipelines").glob("*.py")}
    shared = {"seed", "environment", "iterations", "policy", "endpoint", "launch", "tracking"}
    assert set(yaml.safe_load((ROOT / "params.yaml").read_text())) - shared <= stages
