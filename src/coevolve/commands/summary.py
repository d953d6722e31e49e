"""``coevolve summary``: print the table of the last run, from report/summary.json."""

import argparse

from coevolve.commands.options import typed
from coevolve.core.io import parse, read_json
from coevolve.core.paths import Paths
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.report.tables import table


def configure(parser: argparse.ArgumentParser) -> None:
    file = Paths.report / "summary.json"
    parser.add_argument("file", nargs="?", type=typed, default=file, help=f"the file to print (default: {file})")


def run(args: argparse.Namespace) -> int:
    print(table(parse(Summary, read_json(args.file), str(args.file))))
    return 0
