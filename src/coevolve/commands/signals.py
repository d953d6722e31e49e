"""``coevolve signals``: find an agent's weaknesses in the trajectories of any trainer."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from coevolve.core.io import write_jsonl
from coevolve.core.untrusted import one_line
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.kinds import KINDS

if TYPE_CHECKING:
    from coevolve.core.records import Signal

SHOWN = 10  # signals on the terminal, the strongest first

HELP = """
  coevolve signals trajectories.parquet --out signals.jsonl

TRAJECTORIES is a JSONL or Parquet file with a row per episode. The command reads several files as one table. Name them one
by one, by a quoted glob ('runs/**/*.parquet'), or by addresses of an object store (s3://bucket/runs/*.parquet; install s3fs).

  required columns   task_id text, step integer, score number (success is score >= 0.5)
  optional columns   iteration integer, trajectory_id text, calls list of {name, ok}, stop_reason text

Each line of FILE is a signal: its kind, its evidence, and the trajectories that show it. A visit is all episodes of a task in
a training step. The kinds are:

{kinds}

Each line of FILE is a signal with its evidence and the trajectories that show it. The terminal shows the ten strongest.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    defaults = Signals()
    width = max(map(len, KINDS)) + 2
    parser.epilog = HELP.replace(
        "{kinds}", "\n".join(f"{kind.name:{width}}{kind.condition}" for kind in KINDS.values())
    )
    parser.add_argument("trajectories", nargs="+", metavar="TRAJECTORIES", help="a JSONL or Parquet file")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file of signals to write (JSONL)")
    parser.add_argument(
        "--window",
        type=int,
        default=defaults.window,
        metavar="W",
        help="visits that forgetting compares (default: %(default)s)",
    )
    parser.add_argument(
        "--rare-threshold",
        type=float,
        default=defaults.rare_threshold,
        metavar="THETA",
        help="limit of rare, in percent (default: %(default)s)",
    )
    parser.add_argument("--history", type=Path, metavar="ATTEMPTS", help="JSONL file of earlier attempts at the tasks")
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=list(KINDS),
        default=defaults.kinds,
        help=f"kinds to look for (default: {' '.join(defaults.kinds)})",
    )


def run(args: argparse.Namespace) -> int:
    from collections import Counter

    from coevolve.stages.signals.from_trajectories import stream

    counts: Counter[str] = Counter()
    strongest: list[Signal] = []  # of all signals so far, however many come

    def seen(signal: "Signal") -> "Signal":
        counts[signal.kind] += 1
        strongest.append(signal)
        strongest.sort(key=lambda other: -other.strength)
        del strongest[SHOWN:]
        return signal

    signals = stream(args.trajectories, args.history, args.window, args.rare_threshold, args.kinds)
    write_jsonl(args.out, map(seen, signals))
    print(f"{args.out}: " + ", ".join(f"{counts[kind]} {kind}" for kind in args.kinds))
    for signal in strongest:
        subject = f"task {signal.task_id}" if signal.task_id else " > ".join(signal.pattern or ())
        print(f"  {signal.strength:.2f}  {signal.kind:{max(map(len, KINDS))}}  {one_line(subject, 100)}")
    return 0
