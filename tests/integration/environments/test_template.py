"""A new environment keeps the contract as it is written, before anybody changes it."""

import subprocess
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.environments.template import write


def test_a_new_environment_works_in_its_folder_without_installation(tmp_path: Path) -> None:
    folder = tmp_path / "stock_room"
    assert [file.name for file in write("stock_room", folder)] == ["pyproject.toml", "stock_room.py"]
    for command in (["env", "doctor", "stock_room"], ["env", "audit", "stock_room", "--out", "audit"]):
        done = subprocess.run(["coevolve", *command], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Stock", "stock-room", "1room", "../room", ""])
def test_a_name_is_a_module_s_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(CoevolveError, match="small letters"):
        write(name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    with pytest.raises(CoevolveError, match="is not empty"):
        write("room", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
