"""The identity of an environment: a changed reward changes it; a comment, a package author or a location does not."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import ROOT

# prints what an environment is, before and after each edit
IDENTITIES = """
import json, pathlib, sys
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment
environment = {made}
print(json.dumps(identity(environment)))
for path, old, new in {edits!r}:
    text = pathlib.Path(path).read_text()
    assert old in text, (path, old)
    pathlib.Path(path).write_text(text.replace(old, new, 1))
    print(json.dumps(identity(environment)))
"""
NOTE = """
from coevolve.core.io import write_json
from coevolve.core.paths import Paths
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import make
write_json(Paths.environment, identity(make({name!r})))
"""
OPEN = """
import sys
from coevolve.core.errors import CoevolveError
from coevolve.environments.fingerprint import open_environment
try:
    print(open_environment({name!r}).fingerprint)
except CoevolveError as error:
    sys.exit(str(error))
"""
HOUSE = """
from mine.rooms import ROOMS
from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment

class House:
    def __init__(self, lit):
        self.lit = lit

    def switch(self, room: str) -> str:
        self.lit = sorted(set(self.lit) ^ {room})
        return "done"

class Mine(MethodEnvironment):
    name, simulator = "mine", House

    def questions(self, split):
        yield split, {"lit": []}, [ToolCall("switch", {"room": ROOMS[0]})]
"""

Edit = tuple[str, str, str]  # a file, what it holds, and what stands there instead


@dataclass
class Place:
    """A copy of our code, and beside it a third party's package as pip would install it."""

    folder: Path

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True)

    def identities(self, made: str, *edits: Edit) -> list[dict[str, str]]:
        done = self.run(IDENTITIES.format(made=made, edits=edits))
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    tmp_path /= "src"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "mine/house.py").write_text(HOUSE)
    (tmp_path / "mine/rooms.py").write_text("ROOMS = ('hall', 'attic')\n")
    (tmp_path / "mine/words.json").write_text("{}")
    (tmp_path / "mine/.swp").write_text("")
    about = tmp_path / "mine-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[coevolve.environments]\nmine = mine.house:Mine\n")
    return Place(tmp_path)


SQL = "coevolve_environments/sql/sql_environment.py"
REWARD = ("coevolve_environments/episode.py", "PARTIAL = 0.49", "PARTIAL = 0.1")
HEARD = ("coevolve/environments/questions.py", "for one in answers} <=", "for one in answers} ==")
ROOMS = ("mine/rooms.py", "hall", "cellar")


@pytest.mark.parametrize(
    ("made", "edits"),
    [
        (
            "make('sql')",
            [
                REWARD,
                ("coevolve_environments/sql/databases.py", "FAMILIES", "KINDS"),
                ("coevolve/core/seeding.py", "import", "import base64\nimport"),
            ],
        ),
        (
            "WorkerEnvironment('sql', 'coevolve_environments.sql.sql_environment:SQL')",
            [
                REWARD,
                ("coevolve/environments/worker_main.py", "os._exit(0)", "os._exit(1)"),
                ("coevolve/environments/worker_process.py", "TAIL = 300", "TAIL = 200"),
            ],
        ),
        ("make('mine')", [ROOMS, HEARD, ("mine/house.py", '"done"', '"well"'), ("mine/words.json", "{}", "[]")]),
    ],
)
def test_edits_that_can_matter_change_the_identity(place: Place, made: str, edits: list[Edit]) -> None:
    found = place.identities(made, *edits)
    assert len({one.pop("sources") for one in found}) == len(edits) + 1
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(
    ("made", "edits"),
    [
        (
            "make('sql')",
            [
                (SQL, "SHOWN = 30  #", "# above it\nSHOWN = 30  # beside it,"),
                ("coevolve/core/progress.py", "import", "import base64\nimport"),  # a carrier
                (
                    "coevolve_environments/textworld/textworld_environment.py",
                    "def",
                    "UNUSED = 1\n\n\ndef",
                ),  # another environment's
            ],
        ),
        ("make('mine')", [("mine/rooms.py", "ROOMS", "# of the house\nROOMS"), ("mine/.swp", "", "an editor's")]),
    ],
)
def test_edits_that_cannot_matter_keep_the_identity(place: Place, made: str, edits: list[Edit]) -> None:
    found = place.identities(made, *edits)
    assert len(found) == len(edits) + 1
    assert all(one == found[0] for one in found)


def test_environment_that_differs_from_the_recorded_one_is_refused(place: Place) -> None:
    assert place.run(NOTE.format(name="sql")).returncode == 0
    assert place.run(OPEN.format(name="sql")).stdout.startswith("sql-")
    place.identities("make('sql')", REWARD)
    refused = place.run(OPEN.format(name="sql"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("data/environment.json: sources of the environment is ")
    assert "run `dvc repro -f tasks`" in refused.stderr
    other = place.run(OPEN.format(name="mine"))
    assert other.stderr.startswith("data/environment.json: name of the environment is mine, but was sql")
