"""``coevolve signals``: weakness signals from any trainer's trajectories."""

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
TRAJECTORIES is JSONL or Parquet (by its ending), an episode a row; several files, a glob in quotes ('runs/**/*.parquet') and
addresses of an object store (s3://bucket/runs/*.parquet, with s3fs installed) are read as one:
  task_id text, step integer, score number (success is score >= 0.5): required
  iteration integer, trajectory_id text, calls list of {name, ok}, stop_reason: optional

{kinds}

Each line of FILE is a signal with its evidence and the trajectories that show it. The terminal shows the ten strongest.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    defaults = Signals()
    width = max(map(len, KINDS)) + 2
    parser.epilog = HELP.replace(
        "{kinds}", "\n".join(f"{kind.name:{width}}{kind.condition}" for kind in KINDS.values())
    )
    parser.add_argument("trajectories", nargs="+", metavar="TRAJECTORIES")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the signals go (JSONL)")
    parser.add_argument(
        "--window", type=int, default=defaults.window, metavar="W", help="visits that forgetting looks at (%(default)s)"
    )
    parser.add_argument(
        "--rare-threshold",
        type=float,
        default=defaults.rare_threshold,
        metavar="THETA",
        help="in percent (%(default)s)",
    )
    parser.add_argument("--history", type=Path, metavar="ATTEMPTS", help="JSONL of attempts made before")
    parser.add_argument(
        "--kinds",
        nargs="+",
        choices=list(KINDS),
        default=defaults.kinds,
        help=f"which signals to look for ({' '.join(defaults.kinds)})",
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
