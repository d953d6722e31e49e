"""``coevolve params``: print every parameter with its meaning, its value and its default."""

import argparse

from coevolve.core.errors import CoevolveError
from coevolve.stages.parameters import keys, page, text
from coevolve.stages.schema import load, value

HELP = """
  coevolve params                 # all keys, including those that params.yaml leaves at their default
  coevolve params train           # a section
  coevolve params train.lora      # a part of a section

The values are those of params.yaml in this folder. The last line says how to change a key.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prefix", nargs="?", default="", metavar="KEY", help="a section or a key (default: all)")
    parser.add_argument("--markdown", action="store_true", help="print the page docs/parameters.md instead")


def run(args: argparse.Namespace) -> int:
    if args.markdown:
        print(page(), end="")
        return 0
    wanted = [key for key in keys() if f"{key.name}.".startswith(f"{args.prefix}.") or not args.prefix]
    if not wanted:
        raise CoevolveError(f"no key or section {args.prefix!r}; `coevolve params` prints all")
    params = load()
    for key in wanted:
        now = value(params, key.name)
        changed = "" if key.name == "iterations" or now == key.default else f"   (default {text(key.default)})"
        print(f"{key.name}: {text(now)}{changed}\n    {key.sentence}{f' Values: {key.values}.' if key.values else ''}")
    example = next((key.name for key in wanted if key.name != "iterations"), "seed")
    print(f"\nSet a key in params.yaml, or for one experiment: dvc exp run -S ++{example}=VALUE")
    return 0
