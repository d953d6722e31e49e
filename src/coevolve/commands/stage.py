"""``coevolve stage``: run one stage of the loop, as dvc.yaml does."""

import argparse

from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import whole
from coevolve.stages.code.digest import names
from coevolve.stages.running import run_stage

HELP = """
You rarely need this command: `dvc repro` calls it for every stage of dvc.yaml. Use it to debug a stage. The stage's input
files must exist.

  coevolve stage train 0
  coevolve stage report
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a stage, as in dvc.yaml")
    once = "the iteration, if the stage runs once per iteration"
    parser.add_argument("t", nargs="?", type=whole, metavar="T", help=once)


def run(args: argparse.Namespace) -> int | None:
    stages = ["code", *names()]
    if args.name not in stages:
        raise CoevolveError(f"no stage {args.name!r}; expected one of: {', '.join(stages)}")
    return run_stage(args.name, args.t)
