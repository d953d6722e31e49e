"""``coevolve stage``: run one stage of the loop, as dvc.yaml does."""

import argparse

from coevolve.core.errors import CoevolveError

HELP = """
dvc.yaml calls this command for every stage, so `dvc repro` is what you type. Run a stage by hand to debug it; its files must be there.

  coevolve stage train 0
  coevolve stage report
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("name", metavar="NAME", help="the stage")
    parser.add_argument("t", nargs="?", type=int, metavar="T", help="the iteration, if the stage belongs to one")


def run(args: argparse.Namespace) -> int | None:
    from coevolve.stages.code.digest import names
    from coevolve.stages.running import run_stage

    stages = ["code", *names()]
    if args.name not in stages:
        raise CoevolveError(f"no stage {args.name!r}; expected one of: {', '.join(stages)}")
    return run_stage(args.name, args.t)
