"""``coevolve completion``: the script with which a shell completes commands, flags and files."""

import argparse
from pathlib import Path

SHELLS = ("bash", "zsh")
HELP = """
  coevolve completion bash > ~/.local/share/bash-completion/completions/coevolve
  coevolve completion zsh > ~/.zfunc/_coevolve      # a folder of fpath, as set before compinit in ~/.zshrc

A new shell then completes. `eval "$(coevolve completion bash)"` tries it in this one.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("shell", choices=SHELLS)


def run(args: argparse.Namespace) -> int:
    import shtab

    from coevolve.cli import parser

    commands = parser(summaries=True)
    _complete_files(commands)
    print(shtab.complete(commands, args.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    """Let arguments that are paths complete to files."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for nested in action.choices.values():
                _complete_files(nested)
        elif isinstance(action.type, type) and issubclass(action.type, Path):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
