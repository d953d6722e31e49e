"""A temporary clone of the working tree with a small configuration, in which the real `dvc repro` runs."""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache as once
from pathlib import Path

import yaml

from tests import ROOT
from tests.waiting import PATIENCE, until
from tests.warm import client

SMALL: dict[str, dict[str, object]] = {
    "tasks": {"seed_tasks": 8},
    "policy": {"max_turns": 8, "episode_tokens": 256},
    "train": {"steps": 2, "tasks_per_step": 4, "group_size": 4, "save_steps": 1},
    "explore": {"explorations": 24},
    "synthesize": {"count": 16},
    "verify": {"pass_rate_samples": 1},
    "validate": {name: {"critical": None} for name in ("tasks", "largest_family")},
    "evaluate": {"tasks": 8, "bootstrap": 50},
    "report": {"traces": 2},
}


@once
def warm() -> Path:
    """A folder for PATH whose `python` starts at once. Its server ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="warm"))  # a socket's path may not be long
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", str(folder / "socket")],
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the tests
    )
    until(lambda: (folder / "socket").exists() or server.poll() is not None, "no server of warm processes")
    assert server.poll() is None
    client(folder / "bin", folder / "socket")
    return folder / "bin"


class Project:
    """The clone, and the commands that a user types in it.

    They are processes that start at once (see ``tests.warm``); those of ``start``, and all that DVC then runs, start as a
    user's do.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("DVC_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "HF_HUB_OFFLINE": "1",
            **{f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        self.environment.pop("PYTHONPATH", None)

    def set(self, **changes: object) -> None:
        """Set ``section__key`` (or ``key``) in params.yaml, and add the key if it is missing."""
        file = self.folder / "params.yaml"
        raw = yaml.safe_load(file.read_text())
        for path, value in changes.items():
            *parents, key = path.split("__")
            place = raw
            for parent in parents:
                place = place.setdefault(parent, {})
            place[key] = value
        file.write_text(yaml.safe_dump(raw, sort_keys=False))

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, "PATH": f"{warm()}{os.pathsep}{self.environment['PATH']}"}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done

    def dvc(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("python", "-m", "dvc", *arguments, check=check)

    def stage(self, name: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run stage `code` and then a stage by its script, as `dvc repro` does."""
        self.environment["PYTHONPATH"] = "src"
        self.run("python", "-m", "coevolve.cli", "stage", "code", check=False)
        return self.run("python", f"pipelines/{name}.py", *arguments, check=check)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``dvc`` in its own process group, so that a test can kill it with its stages."""
        return subprocess.Popen(
            [sys.executable, "-m", "dvc", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )


def clone(folder: Path, cache: Path | None = None) -> Project:
    """A clone in ``folder``, without the record of earlier runs. With ``cache``, clones share a DVC cache and do not repeat each other's runs."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and name != "dvc.lock":  # the record of runs in this checkout, if it has had any
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    project = Project(folder)
    project.set(
        iterations=[{"t": 0, "next": 1}],
        **{f"{section}__{key}": value for section, keys in SMALL.items() for key, value in keys.items()},
    )
    project.run("git", "init", "-q")
    project.run("git", "add", "-A")
    project.run("git", "commit", "-q", "-m", "clone")
    if cache:
        project.dvc("cache", "dir", "--local", str(cache))
    project.dvc("repro", "base")
    return project
