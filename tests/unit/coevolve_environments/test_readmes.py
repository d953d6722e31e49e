"""Each folder of an environment explains itself: content, license, tasks, installation, and what was run."""

import re
from pathlib import Path

import pytest

from coevolve.core.code_closure import SOURCE
from tests import ROOT

POINT = re.compile(r'^(\w+) = "coevolve_environments\.(\w+)\.\w+:\w+"$', re.MULTILINE)
HEADINGS = ["License", "Five tasks", "Install", "What was run"]
NAMES: dict[str, list[str]] = {}
for point, package in POINT.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8")):
    NAMES.setdefault(package, []).append(point)


@pytest.mark.parametrize("folder", sorted(NAMES))
def test_readme_of_an_environment_names_it_and_answers_four_questions(folder: str) -> None:
    file: Path = SOURCE / "coevolve_environments" / folder / "README.md"
    text = file.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in NAMES[folder]), f"{file}: names {NAMES[folder]}"
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert len(text.splitlines()) <= 40
    for link in re.findall(r"\]\(([^)#:]+)", text):
        assert (file.parent / link).exists(), f"{file}: {link}"
