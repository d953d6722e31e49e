"""``coevolve profile``: values for a machine and a model, written into params.yaml."""

import argparse
from collections.abc import Iterator, Mapping
from decimal import Decimal
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError

PARAMS = Path("params.yaml")
ADDED = "by a profile"  # the comment at a key that params.yaml lacked
WHOLE = {"template", "select"}  # values that are mappings, or null

HELP = """
A profile sets the keys it names and leaves all others (seed, iterations, limits, your budget) as they are. Keys that
params.yaml lacks are added with the comment "by a profile". A profile's own comments say where the values come from, how
much memory they take, and the command lines for one GPU, eight, and two machines.

  coevolve profile show qwen3-4b
  coevolve profile apply qwen3-4b
  coevolve profile apply laptop      # back to the defaults
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    commands.add_parser("list", help="names, each with its first line")
    for action, text in (("show", "print a profile, comments included"), ("apply", "write it into params.yaml")):
        commands.add_parser(action, help=text).add_argument("name", metavar="NAME")


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
        print(f"{PARAMS}: {len(changes)} values changed; `coevolve doctor` says whether this machine can run them")
    return 0


def names() -> list[str]:
    return sorted(
        file.name.removesuffix(".yaml") for file in files("coevolve.profiles").iterdir() if file.name.endswith(".yaml")
    )


def _text(name: str) -> str:
    if name not in names():
        raise CoevolveError(f"no profile {name!r}; expected one of: {', '.join(names())}")
    return files("coevolve.profiles").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def apply(name: str, path: Path) -> list[tuple[str, Any, Any]]:
    """Set the profile's values in ``path``, whose comments stay; (key, old, new) of what changed."""
    from coevolve.core.yaml_files import read_yaml

    return change(path, {".".join(key): value for key, value in _leaves(read_yaml(_text(name)))}, f"profile {name}")


def change(path: Path, values: Mapping[str, Any], source: str) -> list[tuple[str, Any, Any]]:
    """Set ``values`` (`section.key` → value) in ``path``, whose comments stay; (key, old, new) of what changed.

    ``source`` names where the values come from in errors.
    """
    from ruamel.yaml import YAML

    from coevolve.core.io import write_text
    from coevolve.core.yaml_files import read_yaml
    from coevolve.stages.schema import load, parse, value

    before = load(path)  # a broken file is named before it is changed
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
    changes = []
    for key, new in values.items():
        if (old := value(before, key)) != new:
            changes.append((key, old, new))
        _put(raw, tuple(key.split(".")), new, value(defaults, key))
    text = StringIO()
    editor.dump(raw, text)
    parse(read_yaml(text.getvalue()), source)
    write_text(path, text.getvalue())
    return changes


def _put(section: Any, key: tuple[str, ...], new: Any, default: Any) -> None:
    """Set ``key``. A key that the file lacks is added with the comment ADDED, and with it taken out again by its default."""
    from ruamel.yaml.comments import CommentedMap

    first, *rest = key
    if rest:
        inner = section.setdefault(first, CommentedMap())
        _put(inner, tuple(rest), new, default)
        if not inner:
            del section[first]
    elif first in section and new == default and ADDED in str(section.ca.items.get(first)):
        del section[first]
    elif first in section and section[first] != new:
        section[first] = _inline(new)
    elif first not in section and new != default:
        section.insert(0, first, _inline(new))  # at the end it would stand below the empty line
        section.yaml_add_eol_comment(ADDED, first)


def _inline(value: Any) -> Any:
    """A mapping as `params.yaml` writes one that is a value: {in: one line}."""
    from ruamel.yaml.comments import CommentedMap

    if not isinstance(value, Mapping):
        return value
    made = CommentedMap(value)
    made.fa.set_flow_style()
    return made


def _leaves(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Paths to values."""
    for key, inner in value.items():
        if isinstance(inner, Mapping) and key not in WHOLE:
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key), inner
