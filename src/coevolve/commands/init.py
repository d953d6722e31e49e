"""``coevolve init``: make a project of your own, in which `dvc repro` runs the loop."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.commands.options import DIR
from coevolve.commands.profile import ADDED, apply, change
from coevolve.core.errors import CoevolveError, install
from coevolve.core.io import write_text
from coevolve.core.resources import resource
from coevolve.core.terminal import plain
from coevolve.environments.environment import Environment
from coevolve.environments.registry import opened
from coevolve.environments.template import check_new, declare
from coevolve.policies.pretrained import directory, is_path
from coevolve.stages.schema import load
from coevolve.stages.warm.config import Warm

HELP = """
Makes the folder DIR with params.yaml (the keys that you decide), dvc.yaml (the loop; no need to edit it), .gitignore, a
README, and the folders of git and DVC. DIR must be new or empty: the command overwrites nothing. It asks nothing, and prints
the commands to type next.

  coevolve init DIR                                      # the example: miniworld and the embedded tiny policy
  coevolve init DIR --profile smoke                      # the same example, cut down to three minutes
  coevolve init DIR --environment my_env.py:MyEnvironment    # the tiny policy first learns your tools from your references
  coevolve init DIR --environment my_env.py:MyEnvironment --model Qwen/Qwen2.5-0.5B-Instruct
  coevolve init DIR --environment sql --method genenv
"""
WARM_STEPS = 100  # most steps in which the tiny policy learns a user's own tools from references
WHY = "most supervised steps on your references; warm.until (0.5) ends them"
MOST = 256  # tasks of an environment that a new project starts from
FIRST = ("", "seed", "iterations", "warm", "train", "verify", "grpo")  # "" is the comment that opens the file
FILES = ("reviews/README.md", ".gitignore", ".dvcignore")  # a project and the repository have the same copies


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", **DIR, help="a new or empty folder")
    environment = "a name from `coevolve env list`, or FILE.py:CLASS, a file to copy into DIR (default: miniworld)"
    add("--environment", metavar="NAME", help=environment)
    add("--model", help="the agent to start from: a model directory, or a name on the Hugging Face hub")
    add("--method", help="what failures become: coevolve, genenv or coevolving_agents (default: coevolve)")
    profile = "values for a machine and a model; `coevolve profile list` prints the names"
    add("--profile", metavar="NAME", help=profile)


def run(args: argparse.Namespace) -> int:
    folder: Path = args.folder
    check_new(folder)
    _tools()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".coevolve-", dir=folder.parent) as parent:
        project = Path(parent) / "project"
        project.mkdir()
        environment = _environment(args.environment or "miniworld", project)
        _write(project, environment, args)
        _version(project, folder)
        os.replace(project, folder)  # nothing half-made remains after an error or Ctrl-C
    print(plain(_next(folder, environment.name)))
    return 0


def _tools() -> None:
    if shutil.which("git") is None:
        raise CoevolveError("git is not installed; DVC versions every run with it")
    for package, module in (("DVC", "dvc"), ("PyTorch", "torch")):
        if find_spec(module) is None:
            raise CoevolveError(
                f"{package} is not installed; run `{install('train')}`, which brings all that a run needs"
            )


def _environment(given: str, project: Path) -> Environment:
    """The environment. If ``given`` is FILE.py:CLASS, copy the file into ``project``."""
    path, _, maker = given.partition(":")
    if not path.endswith(".py"):
        return opened(given)
    file = Path(path)
    if not file.is_file() or not maker.replace(".", "").isidentifier():
        raise CoevolveError(
            f"--environment {given}: {'expected FILE.py:CLASS' if file.is_file() else f'there is no file {path}'}"
        )
    if not file.stem.isidentifier():
        raise CoevolveError(
            f"--environment {given}: Python cannot import {file.name}; use letters, digits and underscores in its name"
        )
    environment = opened(given)
    shutil.copy2(file, project / file.name)
    declare(environment.name, file.stem, maker, project)
    return environment


def _model(given: str | None) -> str | None:
    """The value of base.model for ``given``: a hub name or `tiny` unchanged, a directory as an absolute path."""
    if given is None or not (is_path(given) or Path(given).exists()):
        return given
    return str(directory(str(Path(given).expanduser().resolve())))


def _write(project: Path, environment: Environment, args: argparse.Namespace) -> None:
    for name in FILES:
        write_text(project / name, resource(name).read_text(encoding="utf-8"))
    write_text(project / "dvc.yaml", pipeline(resource("dvc.yaml").read_text(encoding="utf-8")))
    params = project / "params.yaml"
    write_text(params, resource("params.yaml").read_text(encoding="utf-8"))
    if args.profile:
        apply(args.profile, params)
    chosen = {"environment": environment.name, "method": args.method, "base.model": _model(args.model)}
    given = {key: value for key, value in chosen.items() if value is not None}
    written = load(params)
    if environment.name != written.environment:
        given["warm.split"] = Warm().split  # the profile may name a split that only its own environment has
        given |= needed(environment, ":" in (args.environment or ""))
    if ".py:" in (args.environment or "") and (args.model or written.base.model) == "tiny":
        given["warm.steps"] = WARM_STEPS
    with chdir(project):  # its pyproject.toml declares the environment
        change(Path(params.name), given, "--environment, --method, --model")
    if "warm.steps" in given:
        text = params.read_text(encoding="utf-8").replace(
            f"steps: {WARM_STEPS}  # {ADDED}", f"steps: {WARM_STEPS}  # {WHY}"
        )
        write_text(params, text)
    if environment.name != "miniworld":
        write_text(params, arranged(params.read_text(encoding="utf-8")))
    readme = (files("coevolve.commands") / "project.md").read_text(encoding="utf-8")
    write_text(project / "README.md", readme.format(environment=environment.name))


def needed(environment: Environment, own: bool) -> dict[str, Any]:
    """The values that fit ``environment``: a panel and rules for its words; if it is ``own``, also tasks and `train.keep_base`."""
    kind = type(environment)
    known = environment.phrasebook.actions or (kind.reading, kind.meaning) != (Environment.reading, Environment.meaning)
    values: dict[str, Any] = {"verify.words": "language" if known else "values"}
    if environment.panels and "validation" not in environment.panels:
        values["report.panel"] = environment.panels[0]
    if own:
        values["tasks.seed_tasks"] = min(len(environment.tasks("seed")), MOST)
        values["train.keep_base"] = 0.0  # policies/0 knows only these few tasks, so there is little to forget
    return values


def arranged(text: str) -> str:
    """The params.yaml of a project with another environment than miniworld: the sections of FIRST are at the top."""

    def place(block: str) -> int:
        match = re.search(r"^(\w+):", block, re.MULTILINE)
        return next((number for number, key in enumerate(FIRST) if key == (match[1] if match else "")), len(FIRST))

    text = text.replace("in the order of the loop", "those that you change first at the top")
    text = re.sub(r"; miniworld has .*", "; `coevolve env show NAME` lists the splits", text)
    blocks = text.replace("\nwarm:\n", "\n\nwarm:\n").split("\n\n")
    return "\n\n".join(block.strip("\n") for block in sorted(blocks, key=place)) + "\n"


def pipeline(text: str) -> str:
    """The dvc.yaml of a project, made from the repository's: the stages run the installed package.

    Stage `code` depends on no file there, so it runs each time and takes seconds. Other stages rerun only if their digest
    changes.
    """
    _, stages = text.split("\nstages:\n")
    stages = stages.replace("PYTHONPATH=src python -m coevolve.stages.code", "coevolve stage code")
    stages = re.sub(r"PYTHONPATH=src python pipelines/(\w+)\.py", r"coevolve stage \1", stages)
    stages = re.sub(
        r"    deps:\n      - src\n      - pipelines\n      - studies[^\n]*\n    params:\n      - params.yaml:\n",
        "    always_changed: true\n",
        stages,
    )
    return f"{HEAD}stages:\n{stages}"


HEAD = """\
# The loop. You need not edit this file: params.yaml holds your decisions, and `dvc repro` runs the stages that changed.
# Stage `code` records the code and the parameters of every other stage. An upgrade of coevolve reruns the stages whose code it
# changes.
"""


def _version(project: Path, folder: Path) -> None:
    """Set up git and DVC in ``project``. Inside a git repository, set up DVC only."""
    inside = _call(["git", "rev-parse", "--show-toplevel"], folder.resolve().parent, check=False).returncode == 0
    if not inside:
        _call(["git", "init", "-q"], project)
    _call([sys.executable, "-m", "dvc", "init", "-q", *(["--subdir"] if inside else [])], project)
    write_text(project / ".dvc/config", resource(".dvc/config").read_text(encoding="utf-8"))


def _call(command: Sequence[str], folder: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if check and done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["failed"]
        raise CoevolveError(f"{' '.join(command[:4])}: {lines[-1]}")
    return done


def _next(folder: Path, environment: str) -> str:
    commands = {
        f"cd {shlex.quote(str(folder))}": "",
        "git add -A && git commit -m 'Start a coevolve project'": "# experiments need a commit",
        f"coevolve play {environment}": "# solve a task by hand",
        "dvc repro": "# run the loop",
        "coevolve summary": "# see the result",
    }
    lines = [f"  {command:58s}{why}".rstrip() for command, why in commands.items()]
    return "\n".join([f"{folder} is ready. Next:", "", *lines])
