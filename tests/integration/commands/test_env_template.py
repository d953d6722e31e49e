"""A new environment has a valid name and overwrites nothing. Its tests and audit: tests/docs/test_tutorial.py."""

from pathlib import Path

import pytest

from coevolve.commands.env_template import write
from coevolve.core.errors import CoevolveError


@pytest.mark.parametrize("name", ["Stock", "stock-room", "1room", "../room", "", "class", "__init__", "_room", "röm"])
def test_environment_name_must_be_a_module_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(CoevolveError, match="small letters"):
        write(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["os", "json", "coevolve", "pydantic", "miniworld", "tau2_retail", "tests"])
def test_new_environment_hides_no_module_and_no_other_environment(name: str, tmp_path: Path) -> None:
    with pytest.raises(CoevolveError, match="use another name"):
        write(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(CoevolveError, match="is not empty"):
        write("room", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
