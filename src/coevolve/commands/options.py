"""Parts of options that several commands share, and the form of their help."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.section import read_yaml

_below = Path()  # the user's folder, seen from the project's folder


def typed(text: str) -> Path:
    """A path as the user typed it, seen from the folder in which the command works."""
    return _below / text


def enter(project: bool) -> None:
    """Let a command that needs a ``project`` work in the nearest folder above that is one, as git does."""
    global _below
    here = Path.cwd()
    above = (here, *here.parents) if project else ()
    root = next((one for one in above if (one / "params.yaml").is_file() and (one / "dvc.yaml").is_file()), here)
    _below = here.relative_to(root)
    os.chdir(root)


FILE: dict[str, Any] = {"type": typed, "metavar": "FILE"}
DIR: dict[str, Any] = {"type": typed, "metavar": "DIR"}
SWITCH: dict[str, Any] = {"action": "store_true"}
ENVIRONMENT: dict[str, Any] = {"metavar": "NAME", "help": "an environment of `coevolve env list`, or FILE.py:CLASS"}


SETTINGS: dict[str, Any] = {"action": "append", "default": [], "dest": "settings", "metavar": "KEY=VALUE"}


def settings(texts: Sequence[str]) -> dict[str, Any]:
    """The values of ``-S KEY=VALUE`` by their dotted keys. A value is YAML, as in params.yaml."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise CoevolveError(f"-S {text}: expected KEY=VALUE, such as signals.window=3")
        values[key.lstrip("+")] = read_yaml(value, f"-S {key}")
    return values


class Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of a text, and adds an option's default to its help, unless the help itself names a default."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help or "", action.default
        if not isinstance(default, str | int | float) or default == "" or action.nargs == 0 or "(default" in text:
            return text
        return f"{text} (default: {default:g})" if isinstance(default, float) else f"{text} (default: {default})"


def actions(
    parser: argparse.ArgumentParser, summaries: Mapping[str, str], texts: Mapping[str, str] | None = None
) -> dict[str, argparse.ArgumentParser]:
    """A parser for each action of a command. ``texts`` stand below the options of some actions."""
    group = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    return {
        name: group.add_parser(
            name, help=summary, description=summary, epilog=(texts or {}).get(name), formatter_class=Help
        )
        for name, summary in summaries.items()
    }
