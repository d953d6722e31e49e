"""Hints in errors and pages: an install command names an existing extra and works outside a clone."""

import re
import tomllib
from collections import defaultdict

from coevolve.core.errors import first_line, install
from tests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CALLED = re.compile(r"\binstall\([\"'](\w+)[\"']\)")
WRITTEN = re.compile(r"(?:coevolve|\.whl)\[([\w,]+)\]")
CLONE = re.compile(r"pip install[^\n]*['\" ]\.\[")
FILES = [
    file
    for file in (*(ROOT / "src").rglob("*"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md")
    if file.suffix in (".py", ".yaml", ".md")
]


def test_first_line_of_an_error_is_never_empty() -> None:
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(TimeoutError()) == "TimeoutError"
    assert len(first_line(ValueError("x" * 1000))) == 200


def test_every_extra_named_in_a_hint_exists() -> None:
    named = defaultdict(set)
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        for extras in (*CALLED.findall(text), *WRITTEN.findall(text)):
            for extra in extras.split(","):
                named[extra].add(str(file.relative_to(ROOT)))
    assert {"train", "mcp", "ray", "gpu", "wandb"} <= set(named)
    assert {extra: files for extra, files in named.items() if extra not in PROJECT["optional-dependencies"]} == {}


def test_no_hint_needs_a_clone() -> None:
    assert [file for file in FILES if CLONE.search(file.read_text(encoding="utf-8"))] == []
    assert install("train") == "pip install 'coevolve[train]'" and PROJECT["name"] == "coevolve"
