"""The command ``coevolve``. Each subcommand is a module of ``coevolve.commands``, loaded when it is used.

Such a module has ``configure``, which adds arguments, ``run``, which returns the exit code, and HELP, the text below the options.
"""

import argparse
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from keyword import iskeyword
from types import ModuleType

from coevolve import __version__
from coevolve.commands.options import Help, enter
from coevolve.core.arithmetic import pin
from coevolve.core.guard import guard

GROUPS = {
    "daily": {
        "init": "make a project of your own, in which `dvc repro` runs the loop",
        "summary": "print the table of the last run",
        "compare": "compare policies of this run, of DVC experiments or of the model registry",
        "lineage": "show where a task comes from, or which data made a policy",
        "track": "log what MLflow and W&B lack of this project's runs",
        "ui": "open MLflow on the table of the project's runs",
        "params": "print every parameter with its meaning, its value and its default",
        "doctor": "check this machine against params.yaml, and print a fix for each problem",
    },
    "data": {
        "grow": "turn the rollouts of any trainer into verified tasks",
        "signals": "find an agent's weaknesses in the trajectories of any trainer",
        "verify": "check candidate tasks in an environment, and keep the sound ones",
        "import": "read episodes that another tool recorded",
        "export": "write a run's episodes, preference pairs, tasks or policy for other tools",
    },
    "environments": {
        "env": "list, install, write, show, check and serve environments",
        "play": "solve a task of an environment by hand",
    },
    "models": {
        "evaluate": "measure a policy on an environment's evaluation tasks, by category",
        "profile": "set params.yaml for a machine and a model",
    },
    "for other programs": {
        "stage": "run one stage of the loop, as dvc.yaml does",
    },
}
IN_PROJECT = {"summary", "compare", "lineage", "track", "ui", "params", "doctor", "export", "play", "profile", "stage"}
COMMANDS = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}


def parser(configured: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The parser of the command. Only subcommands in ``configured`` get their arguments, because that loads their modules."""
    width = max(map(len, COMMANDS)) + 2
    listed = "\n\n".join(
        "\n".join([f"{group}:", *(f"  {name:{width}s}{summary}" for name, summary in commands.items())])
        for group, commands in GROUPS.items()
        if group != "for other programs"
    )
    made = argparse.ArgumentParser(
        prog="coevolve",
        description="Train tool-using agents in a closed loop. In a project, `dvc repro` runs the loop.",
        epilog=f"{listed}\n\n`coevolve COMMAND --help` explains a command.",
        formatter_class=Help,
    )
    made.add_argument("--version", action="version", version=f"coevolve {__version__}")
    subparsers = made.add_subparsers(dest="command", required=True, metavar="COMMAND", help="one of the commands below")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, description=summary, formatter_class=Help)
        if name in configured:
            command = module(name)
            subparser.epilog = getattr(command, "HELP", None)
            command.configure(subparser)
    return made


def module(command: str) -> ModuleType:
    """The module of a command. If the command's name is a Python keyword, the module's name ends with an underscore."""
    return import_module(f"coevolve.commands.{command}{'_' * iskeyword(command)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse ``arguments`` (of the process, if None), run the subcommand and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    enter(arguments[:1] != [] and arguments[0] in IN_PROJECT)
    parsed = parser(arguments[:1]).parse_args(arguments)
    guard(lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> int | None:
    pin()  # no command's module imports torch at its top, so this comes before torch
    code: int | None = module(parsed.command).run(parsed)
    return code


if __name__ == "__main__":
    main()
