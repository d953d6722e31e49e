"""``coevolve summary``: the table of the last run, from report/summary.json."""

import argparse
from pathlib import Path

from coevolve.files import Paths, read_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, default=Paths.report / "summary.json", help="a summary.json")


def run(args: argparse.Namespace) -> int:
    from coevolve.report import table

    print(table(read_json(args.file)))
    return 0
