"""``coevolve signals``: find an agent's weaknesses in the trajectories of any trainer."""

import argparse
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kinds import KINDS

HELP = """
  coevolve signals trajectories.parquet --out signals.jsonl

TRAJECTORIES is a JSONL or Parquet file with a row per episode. The command reads several files as one table. Name them one
by one, by a quoted glob ('runs/**/*.parquet'), or by addresses of an object store (s3://bucket/runs/*.parquet; install s3fs).

  required columns   task_id text, step integer, score number (success is score >= 0.5)
  optional columns   iteration integer, trajectory_id text, calls list of {name, ok}, stop_reason text

Each line of FILE is a signal: its kind, its evidence, and the trajectories that show it. A visit is all episodes of a task in
a training step. The kinds are:

{kinds}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    width = max(map(len, KINDS)) + 2
    parser.epilog = HELP.replace(
        "{kinds}", "\n".join(f"{kind.name:{width}}{kind.condition}" for kind in KINDS.values())
    )
    parser.add_argument("trajectories", nargs="+", metavar="TRAJECTORIES", help="a JSONL or Parquet file")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file of signals to write (JSONL)")
    parser.add_argument(
        "--window", type=int, default=5, metavar="W", help="visits that forgetting compares (default: 5)"
    )
    parser.add_argument(
        "--rare-threshold", type=float, default=2.0, metavar="THETA", help="limit of rare, in percent (default: 2.0)"
    )
    parser.add_argument("--history", type=Path, metavar="ATTEMPTS", help="JSONL file of earlier attempts at the tasks")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), help="kinds to look for (default: all)")


def run(args: argparse.Namespace) -> int:
    from collections import Counter

    from coevolve.stages.signals.extract import extract
    from coevolve.stages.signals.table import open_table

    if args.window < 2:
        raise CoevolveError(f"--window {args.window}: expected at least 2, because forgetting compares visits")
    if not 0 <= args.rare_threshold <= 100:
        raise CoevolveError(f"--rare-threshold {args.rare_threshold}: expected a percentage from 0 to 100")
    kinds = args.kinds or list(KINDS)
    config = Signals(window=args.window, rare_threshold=args.rare_threshold, kinds=kinds)
    counts: Counter[str] = Counter()
    with open_table(args.trajectories, args.history) as table:
        signals = extract(table, table.last_iteration(), config)
        write_jsonl(args.out, (counts.update([signal.kind]) or signal for signal in signals))
    print(f"{args.out}: " + ", ".join(f"{counts[kind]} {kind}" for kind in config.kinds))
    return 0
