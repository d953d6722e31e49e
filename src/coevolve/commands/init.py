"""``coevolve init``: a project of one's own, in which `dvc repro` runs the loop."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path

from coevolve.core.errors import CoevolveError, install

HELP = """
Writes params.yaml (the keys that you decide), dvc.yaml (the loop, which you need not edit), .gitignore, a README, and DVC's and git's
folders. It overwrites nothing: DIR must be new or empty.

  coevolve init DIR                                      # the example: miniworld and the embedded tiny policy
  coevolve init DIR --profile smoke                      # the same in three minutes
  coevolve init DIR --environment my_env.py:MyEnvironment    # the tiny policy first learns your tools from your references
  coevolve init DIR --environment my_env.py:MyEnvironment --model HuggingFaceTB/SmolLM2-135M-Instruct
  coevolve init DIR --environment sql --method genenv
"""
WARM_STEPS = 100  # in which the tiny policy learns a user's own tools from references
WHY = "supervised steps on your references first: the tiny policy does not know your tools"
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
FILES = ("reviews/README.md", ".gitignore", ".dvcignore")  # the same in a project as in the repository


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder")
    parser.add_argument(
        "--environment",
        metavar="NAME",
        help="a name from `coevolve env list`, or FILE.py:CLASS, which is copied (miniworld)",
    )
    parser.add_argument("--model", help="the agent to start from: a model directory, or a name on the Hugging Face hub")
    parser.add_argument("--method", help="coevolve, genenv or coevolving_agents")
    parser.add_argument(
        "--profile", metavar="NAME", help="values for a machine and a model: see `coevolve profile list`"
    )


def run(args: argparse.Namespace) -> int:
    from coevolve.environments.template import check_new

    folder: Path = args.folder
    check_new(folder)
    _tools()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".coevolve-", dir=folder.parent) as parent:
        project = Path(parent) / "project"
        project.mkdir()
        environment = _environment(args.environment, project)
        _write(project, environment, args)
        _version(project, folder)
        os.replace(project, folder)  # nothing half-made remains after an error or Ctrl-C
    print(_next(folder, environment))
    return 0


def _tools() -> None:
    if shutil.which("git") is None:
        raise CoevolveError("git is not installed; DVC versions every run with it")
    for package, module in (("DVC", "dvc"), ("PyTorch", "torch")):
        if find_spec(module) is None:
            raise CoevolveError(
                f"{package} is not installed; run `{install('train')}`, which brings all that a run needs"
            )


def _environment(given: str | None, project: Path) -> str:
    """The name of the environment, whose file is copied into ``project`` if ``given`` is FILE.py:CLASS."""
    from coevolve.environments.registry import make, make_from
    from coevolve.environments.template import declare

    if given is None:
        return "miniworld"
    path, _, maker = given.partition(":")
    if not path.endswith(".py"):
        return make(given).name if ":" not in given else make_from(given).name
    file = Path(path)
    if not file.is_file() or not maker:
        raise CoevolveError(
            f"--environment {given}: {'expected FILE.py:CLASS' if file.is_file() else f'there is no file {path}'}"
        )
    if not file.stem.isidentifier():
        raise CoevolveError(f"--environment {given}: {file.name} is no module's name; name it as Python names a module")
    sys.path.insert(0, str(file.resolve().parent))
    name = make_from(f"{file.stem}:{maker}").name
    shutil.copy2(file, project / file.name)
    declare(name, file.stem, maker, project)
    return name


def _model(given: str | None) -> str | None:
    """``given`` as params.yaml holds it: a hub name or `tiny` as it is, a model directory as an absolute path."""
    from coevolve.policies.pretrained import is_path

    if given is None:
        return None
    if given.endswith(".gguf"):
        raise CoevolveError(
            f"--model {given}: expected a model directory; `coevolve model {given} --out DIR` makes one of a GGUF file"
        )
    if HUB_NAME.fullmatch(given) and not is_path(given) and not Path(given).exists():
        return given
    model = Path(given).expanduser().resolve()
    if not model.is_dir():
        raise CoevolveError(f"--model {given}: there is no directory {model}")
    if not (model / "config.json").is_file():
        raise CoevolveError(f"--model {given}: {model} is no model directory: it lacks config.json")
    return str(model)


def _write(project: Path, environment: str, args: argparse.Namespace) -> None:
    from coevolve.commands.profile import ADDED, apply, change
    from coevolve.core.io import write_text
    from coevolve.core.resources import resource
    from coevolve.stages.schema import load

    for name in FILES:
        write_text(project / name, resource(name).read_text(encoding="utf-8"))
    write_text(project / "dvc.yaml", pipeline(resource("dvc.yaml").read_text(encoding="utf-8")))
    params = project / "params.yaml"
    write_text(params, resource("params.yaml").read_text(encoding="utf-8"))
    if args.profile:
        apply(args.profile, params)
    chosen = {"environment": environment, "method": args.method, "base.model": _model(args.model)}
    given = {key: value for key, value in chosen.items() if value is not None}
    if ".py:" in (args.environment or "") and (args.model or load(params).base.model) == "tiny":
        given["warm.steps"] = WARM_STEPS
    with chdir(project):  # where pyproject.toml declares the environment
        change(Path(params.name), given, "--environment, --method, --model")
    if "warm.steps" in given:
        text = params.read_text(encoding="utf-8").replace(
            f"steps: {WARM_STEPS}  # {ADDED}", f"steps: {WARM_STEPS}  # {WHY}"
        )
        write_text(params, text)
    write_text(project / "README.md", README.format(environment=environment))


def pipeline(text: str) -> str:
    """The dvc.yaml of a project, from that of the repository: stages run the installed package.

    Stage `code` then has no file to depend on. It runs each time and takes seconds. A stage reruns only if its digest changes.
    """
    _, stages = text.split("\nstages:\n")
    stages = stages.replace("PYTHONPATH=src python -m coevolve.stages.code", "coevolve stage code")
    stages = re.sub(r"PYTHONPATH=src python pipelines/(\w+)\.py", r"coevolve stage \1", stages)
    stages = re.sub(
        r"    deps:\n      - src/coevolve\n      - pipelines\n    params:\n      - params.yaml:\n",
        "    always_changed: true\n",
        stages,
    )
    return f"{HEAD}stages:\n{stages}"


HEAD = """\
# The loop. You need not edit this file: params.yaml holds what you decide, and `dvc repro` runs what has changed.
# Stage `code` notes the code and the parameters of every other stage, so an upgrade of coevolve reruns what its code changes.
"""

README = """\
# A coevolve project

coevolve trains an agent in the environment `{environment}`, finds where it is weak, makes new tasks there, and trains on.

    dvc repro                       # run the loop; Ctrl-C stops it, and the same command continues
    coevolve summary                # the table of the last run; report/index.html has the curves
    coevolve ui                     # runs side by side in MLflow
    coevolve lineage                # where a task comes from
    coevolve profile list           # values for other machines and models
    coevolve params                 # every parameter, its value and its default
    dvc exp run -S train.steps=40   # another experiment; `coevolve compare` puts experiments side by side

- `params.yaml` holds the parameters. Every change reruns only the stages that read the changed key.
- `dvc.yaml` holds the stages.
- `reviews/` holds your decisions about tasks, if you make any (`coevolve review`).
- Everything else is written by the run. DVC versions it.

Success is the first metric in DVC's table, also in its extension for VS Code:

    dvc exp show --drop '.*/.*'     # experiments side by side, without the columns of files;
                                    # with several experiments, --only-changed leaves out equal columns too
    dvc metrics show                # this run, columns by name
    dvc plots show                  # success by iteration; loads its drawing library from the network
"""


def _version(project: Path, folder: Path) -> None:
    """Begin git and DVC in ``project``; inside a git repository, DVC alone."""
    from coevolve.core.io import write_text
    from coevolve.core.resources import resource

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
    lines = [f"{folder} is ready. Next:", ""]
    commands = {
        f"cd {folder}": "",
        "git add -A && git commit -m 'Start a coevolve project'": "experiments need a commit",
        f"coevolve play {environment}": "act in the environment yourself",
        "dvc repro": "run the loop",
        "coevolve summary": "see the result",
    }
    return "\n".join(
        lines + [f"  {command:58s}{f'# {why}' if why else ''}".rstrip() for command, why in commands.items()]
    )
