"""The documentation builds without a network, and what it names is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
NAMED = re.compile(r"`((?:tests|benchmarks|pipelines|studies|src/coevolve)/[\w/.-]+)`")
MODULE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py)`")


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link)[^>]*(?:src|href)=\"([^\"]*)\"", page.read_text(encoding="utf-8"))
        assert [one for one in loaded if one.startswith(("http", "//"))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [name for name in NAMED.findall(text) if not (ROOT / name).exists()]
    missing += [
        name
        for name in MODULE.findall(text)
        if not any((base / name).exists() for base in (ROOT, ROOT / "src/coevolve"))
        and not list(ROOT.glob(f"tests/**/{name}"))
    ]
    assert missing == []


def test_every_arm_that_a_page_names_is_in_the_study() -> None:
    from coevolve.readers.study import load

    arms = set(load(ROOT / "studies/ablation/study.yaml").arms)
    text = (ROOT / "docs/paper-to-code.md").read_text(encoding="utf-8")
    cells = [cell for line in text.splitlines() for cell in line.split("|") if cell.strip().startswith("arm")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named and named <= arms
