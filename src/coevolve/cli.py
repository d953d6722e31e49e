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

COMMANDS = {
    "init": "make a project of your own, in which `dvc repro` runs the loop",
    "evaluate": "play a policy on an environment's panels and print a table by category",
    "compare": "policies side by side: of this run, of DVC experiments, of the registry",
    "lineage": "where a task comes from, or which data made a policy",
    "study": "arms of an experiment over seeds, queued, resumable",
    "play": "act in an environment yourself",
    "model": "a pretrained model as a model directory: SmolLM2 from a wheel, a GGUF file, or the hub",
    "params": "every parameter, its value here, its default, and how to change it",
    "profile": "set params.yaml for a machine and a model",
    "doctor": "what works on this machine, what does not, and what to type",
    "env": "list, install and check environments",
    "signals": "extract weakness signals from any trainer's trajectories",
    "verify": "let an environment judge candidate tasks",
    "review": "look at what the loop made: accept, reject, reword",
    "rescore": "let today's environment score stored trajectories",
    "export": "a run's data for other people's tools: messages, preferences, tasks and policies with cards",
    "import": "tasks that were exported, and other people's episodes",
    "ui": "open MLflow on what ran, with its columns set",
    "summary": "print the table of the last run",
    "stage": "run one stage of the loop, as dvc.yaml does",
}


def parser(configured: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The command's arguments; of the subcommands those of ``configured`` alone, since their modules must be loaded."""
    made = argparse.ArgumentParser(
        prog="coevolve",
        description="Train tool-using agents in a closed loop; `make repro` runs all of it.",
        epilog="`coevolve COMMAND --help` explains a command.",
    )
    made.add_argument("--version", action="version", version=f"coevolve {__version__}")
    subparsers = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=summary, description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
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
