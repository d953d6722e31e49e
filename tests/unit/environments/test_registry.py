"""Environments by name: ours, and a third party's by entry point. An invalid one is a one-line error before play."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.environments.registry import make, names

OUTSIDE = """
from coevolve.environments.environment import Environment
from coevolve_environments.miniworld.miniworld_environment import Miniworld

class Good(Miniworld):
    name = "mine"

def function():
    return Good()

def nothing():
    return None

class Alone:
    name, fingerprint, panels = "mine", "mine-1", ("validation",)

class Partial(Environment):
    name, fingerprint, panels = "mine", "mine-1", ("validation",)

    def tools(self):
        return []

class Bare(Environment):
    name, panels = "mine", ("validation",)
    load_tasks = tools = open = lambda self, *rest: None
"""
BASE = "coevolve.environments.environment.Environment"


def made(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """The result of ``make`` for a distribution whose entry point ``mine`` is ``place``."""
    (folder / "outside.py").write_text(OUTSIDE)
    about = folder / "mine-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(f"[coevolve.environments]\nmine = {place}\n")
    monkeypatch.syspath_prepend(str(folder))
    assert "mine" in names()
    return make("mine")


@pytest.mark.parametrize("place", ["outside:Good", "outside:function"])
def test_entry_point_names_a_class_or_a_function(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(made(tmp_path, place, monkeypatch)).__name__ == "Good"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("outside:Alone", f"outside:Alone is not an environment; it must inherit {BASE}"),
        ("outside:nothing", f"outside:nothing does not return an environment; the returned object must inherit {BASE}"),
        ("outside:Partial", f"outside:Partial lacks load_tasks, open; see {BASE}"),
        ("outside:Bare", f"outside:Bare lacks fingerprint; see {BASE}"),
        ("outside:Miniworld", "entry point mine = outside:Miniworld: the environment calls itself 'miniworld'"),
        ("outside:Missing", "outside:Missing cannot be imported: .*Missing.*; expected MODULE:CLASS"),
    ],
)
def test_invalid_environment_is_a_one_line_error(
    place: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CoevolveError, match=said) as caught:
        made(tmp_path, place, monkeypatch)
    assert "\n" not in str(caught.value)


def test_a_class_in_a_file_or_a_module_needs_no_name(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(OUTSIDE)
    assert make(f"{tmp_path / 'beside.py'}:Good").name == "mine"
    assert make("beside:function").name == "mine"
    with pytest.raises(CoevolveError, match="there is no file nowhere"):
        make("nowhere.py:Good")


def test_the_error_for_an_unknown_name_says_how_a_class_gets_one() -> None:
    with pytest.raises(CoevolveError) as caught:
        make("stock")
    assert "expected one of: " in str(caught.value)
    assert "FILE.py:CLASS names a class of your own; an entry point of the group" in str(caught.value)
    assert "coevolve.environments in pyproject.toml gives it a name" in str(caught.value)
