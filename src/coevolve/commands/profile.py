"""``coevolve profile``: set params.yaml for a machine and a model."""

import argparse
from collections.abc import Mapping
from decimal import Decimal
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from coevolve.commands.options import actions
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_text
from coevolve.core.section import dotted, read_yaml
from coevolve.stages.schema import load, parse, value

PARAMS = Path("params.yaml")
ADDED = "by a profile"  # the comment at a key that a profile added to params.yaml
WHOLE = {"template", "select"}  # keys whose value is a mapping or null

HELP = """
A profile sets the keys that it names and leaves all others (seed, iterations, limits, your budget) unchanged. If params.yaml
lacks a key, the command adds it with the comment "by a profile". The comments of a profile give the source of its values,
the memory that they need, and the commands for one GPU, for eight, and for two machines.

  coevolve profile list
  coevolve profile show qwen3-4b
  coevolve profile apply qwen3-4b
  coevolve profile apply laptop      # back to the defaults
"""


def configure(parser: argparse.ArgumentParser) -> None:
    texts = {
        "list": "list the profiles, each with its first line",
        "show": "print a profile with its comments",
        "apply": "write a profile into params.yaml",
    }
    parsers = actions(parser, texts)
    for action in ("show", "apply"):
        parsers[action].add_argument("name", metavar="NAME", help="a profile; `coevolve profile list` prints the names")


def run(args: argparse.Namespace) -> int:
    if args.action == "list":
        for name in names():
            print(f"{name:16s} {_text(name).splitlines()[0].removeprefix('# ')}")
    elif args.action == "show":
        print(_text(args.name), end="")
    else:
        changes = apply(args.name, PARAMS)
        for key, old, new in changes:
            print(f"{key}: {old} -> {new}")
        print(f"{PARAMS}: {len(changes)} values changed; `coevolve doctor` checks that this machine can run them")
    return 0


def names() -> list[str]:
    return sorted(
        file.name.removesuffix(".yaml")
        for file in files("coevolve.commands.profiles").iterdir()
        if file.name.endswith(".yaml")
    )


def _text(name: str) -> str:
    if name not in names():
        raise CoevolveError(f"no profile {name!r}; expected one of: {', '.join(names())}")
    return files("coevolve.commands.profiles").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def apply(name: str, path: Path) -> list[tuple[str, Any, Any]]:
    """Set the profile's values in ``path`` and keep its comments. Returns (key, old, new) of each change."""
    return change(path, dotted(read_yaml(_text(name)), whole=WHOLE), f"profile {name}")


def change(
    path: Path, values: Mapping[str, Any], source: str, why: Mapping[str, str] | None = None
) -> list[tuple[str, Any, Any]]:
    """Set ``values`` (`section.key` → value) in ``path`` and keep its comments. Returns (key, old, new) of each change.

    Errors name ``source`` as the origin of the values. A key that the file lacks gets the comment ``why`` says, or ADDED.
    """
    before = load(path)  # reports a broken file before changing it
    editor = YAML()
    editor.preserve_quotes = True
    editor.width = 10**6
    editor.indent(mapping=2, sequence=4, offset=2)
    editor.representer.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    editor.representer.add_representer(  # 0.00002, not 2e-05, which YAML 1.1 reads as text
        float, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:float", f"{Decimal(repr(value)):f}")
    )
    raw = editor.load(path.read_text(encoding="utf-8"))
    defaults = parse({"iterations": raw["iterations"], "method": values.get("method", before.method)}, source)
    for key, new in values.items():
        _put(raw, tuple(key.split(".")), new, value(defaults, key), (why or {}).get(key, ADDED))
    text = StringIO()
    editor.dump(raw, text)
    after = parse(read_yaml(text.getvalue()), source)
    write_text(path, text.getvalue())
    changes = ((key, value(before, key), value(after, key)) for key in values)
    return [(key, old, new) for key, old, new in changes if old != new]


def _put(section: Any, key: tuple[str, ...], new: Any, default: Any, why: str) -> None:
    """Set ``key``. If the file lacks it, add it with the comment ``why``. Remove one with ADDED when ``new`` is its default."""
    first, *rest = key
    if rest:
        inner = section.setdefault(first, CommentedMap())
        _put(inner, tuple(rest), new, default, why)
        if not inner:
            del section[first]
    elif first in section and new == default and ADDED in str(section.ca.items.get(first)):
        del section[first]
    elif first in section and section[first] != new:
        section[first] = _inline(new)
    elif first not in section and new != default:
        section.insert(0, first, _inline(new))  # at the end the key would stand below the empty line
        section.yaml_add_eol_comment(why, first)


def _inline(value: Any) -> Any:
    """A mapping in the style of `params.yaml` for values: {in: one line}."""
    if not isinstance(value, Mapping):
        return value
    made = CommentedMap(value)
    made.fa.set_flow_style()
    return made
