"""``coevolve signals``: weakness signals from any trainer's trajectories."""

import argparse
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kinds import KINDS

HELP = """
TRAJECTORIES is JSONL or Parquet (by its ending), an episode a row; several files, a glob in quotes ('runs/**/*.parquet') and
addresses of an object store (s3://bucket/runs/*.parquet, with s3fs installed) are read as one:
  task_id text, step integer, score number (success is score >= 0.5): required
  iteration integer, trajectory_id text, calls list of {name, ok}, stop_reason: optional

{kinds}

Each line of FILE is a signal with its evidence and the trajectories that show it.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    width = max(map(len, KINDS)) + 2
    parser.epilog = HELP.replace(
        "{kinds}", "\n".join(f"{kind.name:{width}}{kind.condition}" for kind in KINDS.values())
    )
    parser.add_argument("trajectories", nargs="+", metavar="TRAJECTORIES")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the signals go (JSONL)")
    parser.add_argument("--window", type=int, default=5, metavar="W", help="visits that forgetting looks at (5)")
    parser.add_argument("--rare-threshold", type=float, default=2.0, metavar="THETA", help="in percent (2.0)")
    parser.add_argument("--history", type=Path, metavar="ATTEMPTS", help="JSONL of attempts made before")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), help="only these")


def run(args: argparse.Namespace) -> int:
    from collections import Counter

    from coevolve.stages.signals.extract import extract
    from coevolve.stages.signals.table import open_table

    if args.window < 2:
        raise CoevolveError(f"--window {args.window}: expected at least 2, as one visit alone cannot be forgotten")
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
