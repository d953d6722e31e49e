"""The package, the changelog, the citation and the docs name the same version. All pins support the oldest Python."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from itertools import pairwise

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from coevolve import __version__
from coevolve.cli import main
from tests import ROOT

HEADING = re.compile(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", re.MULTILINE)
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_version_is_that_of_the_newest_release(capsys: pytest.CaptureFixture[str]) -> None:
    (first, no_date), (newest, date), *older = HEADING.findall(CHANGES)
    assert (first, no_date) == ("Unreleased", ""), "changes go under [Unreleased] until a release"
    assert newest == __version__ and date
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], str(citation["date-released"])) == (newest, date)
    assert all(new[1] >= old[1] for new, old in pairwise([(newest, date), *older])), "newest first"
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"coevolve {newest}\n"


def test_every_changelog_heading_is_a_release() -> None:
    assert len(HEADING.findall(CHANGES)) == len(re.findall(r"^## ", CHANGES, re.MULTILINE))


def test_pages_name_the_wheel_of_this_version() -> None:
    wheels = [
        name
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for name in re.findall(r"coevolve-([\w.]+)-py3", page.read_text(encoding="utf-8"))
    ]
    assert wheels and set(wheels) == {__version__}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
UNPINNED = {"coevolve", "wandb"}  # no installation of the repository has W&B


def test_pyproject_gives_ranges_and_constraints_pin_a_version_in_each() -> None:
    pinned = {canonicalize_name(name): version for name, version in (line.split("==") for line in PINS)}
    extras = PROJECT["optional-dependencies"].values()
    wanted = [Requirement(line) for lines in (PROJECT["dependencies"], *extras) for line in lines]
    assert [str(one) for one in wanted if any(part.operator == "==" for part in one.specifier)] == []
    for one in wanted:
        if one.name not in UNPINNED:
            assert pinned[canonicalize_name(one.name)] in one.specifier, one


def test_pins_run_on_the_oldest_python() -> None:
    (oldest,) = (one.version for one in SpecifierSet(PROJECT["requires-python"]) if one.operator == ">=")
    wanted = {}
    for line in PINS:
        try:
            wanted[line] = metadata(line.split("==")[0]).get("Requires-Python", "")
        except PackageNotFoundError:  # of another platform
            continue
    assert len(wanted) > 100
    assert {pin: needs for pin, needs in wanted.items() if oldest not in SpecifierSet(needs)} == {}
