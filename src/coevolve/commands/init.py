"""``coevolve init``: make a project of your own, in which `dvc repro` runs the loop."""

import argparse
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve import __version__
from coevolve.commands.env_template import check_new, declare
from coevolve.commands.options import DIR
from coevolve.commands.profile import apply, change
from coevolve.core import programs
from coevolve.core.errors import CoevolveError, install
from coevolve.core.io import naming, write_text
from coevolve.core.pipeline import of_project, resource
from coevolve.core.terminal import plain
from coevolve.environments.registry import is_own, places
from coevolve.policies.pretrained import directory, download, is_path, shipped
from coevolve.stages.schema import load
from coevolve.stages.warm.config import NEW_WORDS, Warm

HELP = """
Makes the folder DIR with params.yaml (the keys that you decide), dvc.yaml (the loop; no need to edit it), a README, a workflow
for GitHub, and the folders of git and DVC. DIR must be new or empty: the command overwrites nothing. It asks nothing, and prints the commands to
type next.

  coevolve init DIR                                          # the example: miniworld and the embedded tiny policy
  coevolve init DIR --profile smoke                          # the same example, cut down to three minutes
  coevolve init DIR --environment my_env.py:MyEnvironment    # the tiny policy first learns your tools from your references
  coevolve init DIR --environment my_env.py:MyEnvironment --model Qwen/Qwen2.5-0.5B-Instruct
  coevolve init DIR --environment sql --method genenv

An environment plays the reference of its first task, in a process of its own, before the command says that DIR is ready. From
FILE.py:CLASS the command copies FILE.py, and the files in its folder that the environment imports or reads. `coevolve env new
NAME` writes such a file, and `coevolve env check FILE.py:CLASS` tests one.
"""
WHY = {
    **dict.fromkeys((f"warm.{key}" for key in NEW_WORDS), "the tiny policy learns new words with it"),
    "warm.steps": "most supervised steps on your references; warm.until (0.5) ends them",
}
MOST = 256  # tasks of an environment that a new project starts from
FIRST = ("", "seed", "iterations", "warm", "train", "verify", "grpo")  # "" is the comment that opens the file
# a project and the repository have the same copies
FILES = ("reviews/README.md", ".gitattributes", ".gitignore", ".dvcignore")
NEEDED = (
    "dvc.yaml",
    "dvc.lock",
    "params.yaml",
    ".dvc/config",
)  # files that DVC does not run without, or reads from git
# texts with the names of the environment and of this version
TEXTS = {"README.md": "project.md", ".github/workflows/check.yml": "project_check.yml"}
WRITTEN = {"dvc.yaml", "dvc.lock", "params.yaml", "pyproject.toml", *FILES, *TEXTS}


@dataclass(frozen=True)
class Tried:
    """An environment that opened in a fresh process: its name, the values of params.yaml that fit it, the number of its training
    tasks, and the files that it uses in the folder of its file.
    """

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    tasks: int = 0
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fit:
    """The values of params.yaml that fit the environment and the model, what decided each, and what to know before a long run."""

    values: dict[str, Any] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", **DIR, help="a new or empty folder")
    environment = (
        "a name of `coevolve env list`, FILE.py:CLASS to copy, or MODULE:CLASS of a package (default: miniworld)"
    )
    add("--environment", metavar="NAME", help=environment)
    add("--model", help="the agent to start from: a model directory, or a name on the Hugging Face hub")
    add("--method", help="what failures become: coevolve, genenv or coevolving_agents (default: coevolve)")
    profile = "values for a machine and a model; `coevolve profile list` prints the names"
    add("--profile", metavar="NAME", help=profile)


def run(args: argparse.Namespace) -> int:
    check_new(args.folder)
    _tools()
    folder: Path = args.folder.resolve()
    base = folder if folder.is_dir() else folder.parent
    with naming(base):
        base.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=".coevolve-", dir=base)
    with temporary as parent:
        project = Path(parent) / "project"
        project.mkdir()
        tried = _environment(args.environment, project) if args.environment else Tried("miniworld")
        fit = _fit(tried.name, project, args)
        _write(project, tried, args, fit)
        _version(project, folder, tried.files)
        for path in project.iterdir() if folder.is_dir() else ():
            os.replace(path, folder / path.name)
        if not folder.is_dir():
            os.replace(project, folder)  # nothing half-made remains after an error or Ctrl-C
    if len(tried.files) > 1:
        print(plain(f"copied from {Path(args.environment).resolve().parent}: {', '.join(tried.files)}"))
    print(plain(_next(args.folder, tried.name)))
    if fit.lines:
        print(plain("\n".join(["", *fit.lines])))
    return 0


def _tools() -> None:
    if shutil.which("git") is None:
        raise CoevolveError("git is not installed; DVC versions every run with it")
    for package, module in (("DVC", "dvc"), ("PyTorch", "torch")):
        if find_spec(module) is None:
            raise CoevolveError(
                f"{package} is not installed; run `{install('train')}`, which brings all that a run needs"
            )


def _environment(given: str, project: Path) -> Tried:
    """Try the environment in ``project``, as the loop opens it. FILE.py:CLASS is copied there first, with the files it uses."""
    if ":" not in given and not given.endswith(".py"):
        module, _, maker = places().get(given, "").partition(":")
        if not Path(f"{module}.py").is_file():
            return _tried(given, project)
        given = f"{module}.py:{maker}"  # the pyproject.toml of this folder declares it
    if "@" in given:
        raise CoevolveError(
            f"--environment {given}: the loop needs evaluation tasks of its own, which a class with a data set does not have; "
            "`coevolve grow` takes it as it is"
        )
    path, _, maker = given.partition(":")
    file = Path(path)
    if not maker.replace(".", "").isidentifier() or file.is_dir():
        raise CoevolveError(f"--environment {given}: expected FILE.py:CLASS")
    if file.suffix != ".py":
        declare(_tried(given, project).name, path, maker, project)
        return _tried(given, project)
    if not file.is_file():
        raise CoevolveError(f"--environment {given}: there is no file {path}")
    if not file.stem.isidentifier():
        raise CoevolveError(
            f"--environment {given}: Python cannot import {file.name}; use letters, digits and underscores in its name"
        )
    here = _tried(given, Path())
    if not is_own(here.name):
        raise CoevolveError(f"{given}: the name {here.name!r} belongs to coevolve; give your environment another name")
    for name in here.files:
        if name in WRITTEN:
            raise CoevolveError(f"{given} uses {name} beside it, and a project has its own {name}; rename yours")
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.parent / name, project / name)
    declare(here.name, file.stem, maker, project, [name for name in here.files if name != file.name])
    try:
        _tried(here.name, project)
    except CoevolveError as error:
        reason = str(error).replace(f"{project}/", "").replace(str(project.parent), "..")
        raise CoevolveError(
            f"{given} works where it is, but not in a project, which gets {', '.join(here.files)}: {reason}; keep the files "
            f"that it reads beside {file.name}, keys in environment variables instead of hidden files, or `pip install` it as a package and pass MODULE:CLASS"
        ) from None
    return here


def _tried(place: str, folder: Path) -> Tried:
    """What ``commands.trial`` prints about the environment ``place``, in a fresh process in ``folder``."""
    command = [sys.executable, "-P", "-B", "-m", "coevolve.commands.trial", place]
    return Tried(**json.loads(programs.run(command, "", folder).splitlines()[-1]))


def _model(given: str | None) -> str | None:
    """The value of base.model for ``given``: a hub name or `tiny` unchanged, a directory as an absolute path."""
    if given is None or not (is_path(given) or Path(given).exists()):
        return given
    return str(directory(str(Path(given).expanduser().resolve())))


def _fit(environment: str, project: Path, args: argparse.Namespace) -> Fit:
    """What `commands.fit` finds for an environment and a model, unless a profile decides. A model on the hub is downloaded."""
    model = _model(args.model)
    if args.profile or model is None or shipped(model):
        return Fit()
    place = model if is_path(model) else str(download(model, None))
    command = [sys.executable, "-P", "-B", "-m", "coevolve.commands.fit", environment, place]
    return Fit(**json.loads(programs.run(command, "", project).splitlines()[-1]))


def _write(project: Path, environment: Tried, args: argparse.Namespace, fit: Fit) -> None:
    for name in FILES:
        write_text(project / name, resource(name).read_text(encoding="utf-8"))
    write_text(project / "dvc.yaml", of_project(resource("dvc.yaml").read_text(encoding="utf-8")))
    params = project / "params.yaml"
    write_text(params, resource("params.yaml").read_text(encoding="utf-8"))
    if args.profile:
        apply(args.profile, params)
    if fit.values:
        with chdir(project):
            change(params, fit.values, "--environment, --model", fit.why)
    chosen = {"environment": environment.name, "method": args.method, "base.model": _model(args.model)}
    given = {key: value for key, value in chosen.items() if value is not None}
    written = load(params)
    if environment.name != written.environment:
        given["warm.split"] = Warm().split  # the profile may name a split that only its own environment has
        given |= environment.values
        if ":" in (args.environment or ""):
            given["tasks.seed_tasks"] = min(environment.tasks, MOST)
            given["train.keep_base"] = 0.0  # policies/0 knows only these few tasks, so there is little to forget
    if is_own(environment.name) and (args.model or written.base.model) == "tiny":
        given |= {f"warm.{key}": value for key, value in NEW_WORDS.items()}
    with chdir(project):  # its pyproject.toml declares the environment
        change(Path(params.name), given, "--environment, --method, --model", WHY)
    if environment.name != "miniworld":
        write_text(params, arranged(params.read_text(encoding="utf-8")))
    for name, source in TEXTS.items():
        text = (files("coevolve.commands") / source).read_text(encoding="utf-8")
        write_text(project / name, text.format(environment=environment.name, version=__version__))


def arranged(text: str) -> str:
    """The params.yaml of a project with another environment than miniworld: the sections of FIRST are at the top."""

    def place(block: str) -> int:
        match = re.search(r"^(\w+):", block, re.MULTILINE)
        return next((number for number, key in enumerate(FIRST) if key == (match[1] if match else "")), len(FIRST))

    text = text.replace("in the order of the loop", "those that you change first at the top")
    text = re.sub(r"; miniworld has .*", "; `coevolve env show NAME` lists the splits", text)
    blocks = re.sub(r"\n(warm|validate):\n", r"\n\n\1:\n", text).split("\n\n")
    return "\n\n".join(block.strip("\n") for block in sorted(blocks, key=place)) + "\n"


def _version(project: Path, folder: Path, files: Sequence[str]) -> None:
    """Set up git and DVC in ``project``, which becomes ``folder``. Inside a git repository, set up DVC only.

    If git ignores one of the ``files`` or of DVC's there, that is a CoevolveError: DVC would run nothing.
    """
    inside = programs.git("rev-parse", "--show-toplevel", folder=folder.parent)
    if not inside:
        programs.run(["git", "init", "-q"], "git init", project)
    asked = (folder.parent, folder.name) if inside else (project, "")
    if found := programs.ignored([f"{asked[1]}/{name}".lstrip("/") for name in (*NEEDED, *files)], asked[0]):
        raise CoevolveError(f"{found}; DVC needs the file: change that line, or name a folder elsewhere")
    programs.dvc("init", *(["--subdir"] if inside else []), folder=project)  # with -q, DVC hides its errors
    if inside:  # DVC has staged its files, which move now
        programs.git("rm", "-r", "-q", "--cached", "--ignore-unmatch", ".", folder=project)
    for name in (".dvc/config", ".dvc/plots.html"):
        write_text(project / name, resource(name).read_text(encoding="utf-8"))


def _next(folder: Path, environment: str) -> str:
    commands = {
        **({} if folder.resolve() == Path.cwd() else {f"cd {shlex.quote(str(folder))}": ""}),
        "git add -A && git commit -m 'Start a coevolve project'": "# experiments need a commit",
        f"coevolve play {environment}": "# solve a task by hand",
        "dvc repro": "# run the loop",
        "coevolve summary": "# see the result",
    }
    lines = [f"  {command:58s}{why}".rstrip() for command, why in commands.items()]
    return "\n".join([f"{folder} is ready. Next:", "", *lines])
