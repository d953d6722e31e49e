"""``coevolve params``: print every parameter with its meaning, its value and its default."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from coevolve.core.errors import CoevolveError
from coevolve.core.section import one_line
from coevolve.stages.code.digest import STAGES, names, reads
from coevolve.stages.schema import DERIVED, Params, load, sections, value
from coevolve.stages.validate.config import Limit

HELP = """
  coevolve params                 # all keys, including those that params.yaml leaves at their default
  coevolve params train           # a section
  coevolve params train.lora      # a part of a section
  coevolve params --stage train   # the keys that a stage reads: a change of one runs it again

The values are those of params.yaml in this folder. The last line says how to change a key.
"""


PAGE = """# Parameters

`params.yaml` holds the keys that a person decides. Every other key on this page has a default, and you can set it there too:

    train:
      gradient_checkpointing: true

On the command line, `-S KEY=VALUE` sets a key that `params.yaml` has, and `-S ++KEY=VALUE` sets any key:

    dvc exp run -S train.steps=10 -S ++train.gradient_checkpointing=true

`coevolve params` prints this list with the values of your project, and `coevolve params train` prints a section.
`coevolve params --markdown` writes this page. A mistyped key or a wrong value ends the run with a line that names it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prefix", nargs="?", default="", metavar="KEY", help="a section or a key (default: all)")
    parser.add_argument("--stage", choices=names(), metavar="STAGE", help="only keys that a stage of dvc.yaml reads")
    parser.add_argument("--markdown", action="store_true", help="print the page docs/parameters.md instead")


def run(args: argparse.Namespace) -> int:
    if args.markdown:
        print(page(), end="")
        return 0
    params = load()
    wanted = [key for key in keys() if _within(key.name, args.prefix)]
    if args.stage:
        read = {params.train.learner if key == "learner" else key for key in reads(STAGES / args.stage / "stage.py")}
        wanted = [key for key in wanted if any(_within(key.name, part) for part in read)]
        wanted += [_derived(name) for name in sorted(read & set(DERIVED)) if not args.prefix]
    if not wanted:
        reason = f"stage {args.stage} reads no key of" if args.stage else "no key or section"
        raise CoevolveError(f"{reason} {args.prefix!r}; `coevolve params` prints all")
    for key in wanted:
        now = value(params, key.name)
        same = key.name == "iterations" or key.default in (now, ...)
        changed = "" if same else f"   (default {text(key.default)})"
        print(f"{key.name}: {text(now)}{changed}\n    {key.sentence}{f' Values: {key.values}.' if key.values else ''}")
    example = next((key.name for key in wanted if key.name != "iterations"), "seed")
    print(f"\nSet a key in params.yaml, or for one experiment: dvc exp run -S ++{example}=VALUE")
    return 0


@dataclass(frozen=True, slots=True)
class Key:
    """A key. ``name`` is dotted. ``default`` is ... if there is none. ``values`` lists the allowed values, if only some are allowed."""

    name: str
    default: Any
    sentence: str
    values: str


def _within(name: str, part: str) -> bool:
    """Whether ``name`` is the key ``part`` or one of the section ``part``. The empty part holds all keys."""
    return not part or f"{name}.".startswith(f"{part}.")


def _derived(name: str) -> Key:
    """A property of the parameters, such as ``trains``, which follows from keys."""
    return Key(name, ..., (getattr(Params, name).__doc__ or "").strip(), "")


def keys() -> Iterator[Key]:
    """All keys, in the order of the loop."""
    classes = sections()
    for name, field in Params.model_fields.items():
        if name == "iterations":
            yield Key(name, None, field.description or "", "[{t: 0, next: 1}, {t: 1, next: 2}, ...]")
        elif (field.alias or name) not in classes and name != "learners":
            yield Key(name, field.default, field.description or "", "")
    for name, section in classes.items():
        yield from _keys(name, section)


def _keys(prefix: str, section: type[BaseModel]) -> Iterator[Key]:
    for name, field in section.model_fields.items():
        default = field.default
        if isinstance(default, BaseModel) and not isinstance(default, Limit):
            yield from _keys(f"{prefix}.{name}", type(default))
        else:
            limit = isinstance(default, Limit)
            sentence = f"{field.description or ''}{' Low is bad.' * (limit and default.low_is_bad)}"
            values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            shown = default.model_dump() if limit else default
            yield Key(f"{prefix}.{name}", shown, sentence, ", ".join(map(str, values)))


def text(value: Any) -> str:
    """A value as one line of params.yaml."""
    return one_line(value, lambda word: word or '""')


def page() -> str:
    """The text of docs/parameters.md."""
    lines, section = [PAGE], ""
    for key in keys():
        first = key.name.partition(".")[0] if "." in key.name else "top"
        if first != section:
            section = first
            title = "The top" if first == "top" else f"`{first}`"
            doc = "" if first == "top" else sections()[first].__doc__
            about = f"\n{doc.strip().splitlines()[0]}\n" if doc else ""
            lines.append(f"\n## {title}\n{about}\n| key | default | meaning |\n|---|---|---|\n")
        default = "" if key.name == "iterations" else f"`{text(key.default)}`"
        meaning = f"{key.sentence} Values: {key.values}." if key.values else key.sentence
        lines.append(f"| `{key.name.removeprefix(f'{first}.')}` | {default} | {meaning} |\n")
    return "".join(lines)
