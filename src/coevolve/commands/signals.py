"""``coevolve signals``: find what an agent cannot do, in the rollouts of any trainer or harness."""

import argparse
import json
import tempfile
from pathlib import Path

from coevolve.commands.options import FILE, SWITCH
from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.core.numeric_options import count, not_negative, share
from coevolve.core.records import Attempt
from coevolve.core.success import SUCCESS_THRESHOLD
from coevolve.rollouts.find_weaknesses import evidence
from coevolve.rollouts.rollout_formats import listed
from coevolve.rollouts.rollout_row import Options
from coevolve.rollouts.weakness_report import Shown, lines, report_of
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.extract import KINDS, extract

WIDTH = max(map(len, KINDS)) + 2
KIND_LINES = "\n".join(f"{kind.name:{WIDTH}}{kind.condition}" for kind in KINDS.values())
HELP = f"""
  coevolve signals outputs/completions                  # what TRL wrote
  coevolve signals jobs 'runs/**/*.jsonl' more.parquet  # folders, globs and files, of any mixture of formats

The command reads these formats, and knows each by its content:

{listed()}

Also Parquet files with a row per episode: `task_id` text, `step` integer, `score` number, and optionally `iteration`,
`trajectory_id`, `calls` (a list of {{name, ok}}) and `stop_reason`.

An episode is solved with a score of at least 0.5, or of --threshold. A visit is all episodes of a task in a training step.
With --out, each line of FILE is a signal: its kind, its evidence, and the trajectories that show it. The kinds are:

{KIND_LINES}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    defaults = Signals()
    add = parser.add_argument
    add("rollouts", nargs="+", metavar="ROLLOUTS", help="files, folders or globs")
    add("--out", **FILE, help="write the signals here (JSONL)")
    add("--threshold", type=not_negative, metavar="S", help="least score of a success (default: 0.5)")
    add("--reward", metavar="NAME", help="the reward to take as the score, if there are several")
    add("--score", type=share, metavar="S", help="score of rollouts that have none")
    add("--window", type=count, default=defaults.window, metavar="W", help="visits that forgetting compares")
    add(
        "--rare-threshold",
        type=not_negative,
        default=defaults.rare_threshold,
        metavar="THETA",
        help="limit of rare, in percent",
    )
    add("--history", **FILE, help="earlier attempts at the tasks (JSONL)")
    add(
        "--kinds",
        nargs="+",
        choices=list(KINDS),
        default=defaults.kinds,
        help=f"kinds to look for (default: {' '.join(defaults.kinds)})",
    )
    add("--json", **SWITCH, help="print JSON")


def run(args: argparse.Namespace) -> int:
    config = Signals(window=args.window, rare_threshold=args.rare_threshold, kinds=args.kinds)
    options, threshold = Options(args.reward, args.score), args.threshold
    history = [] if args.history is None else read_jsonl(args.history, Attempt)
    with (
        tempfile.TemporaryDirectory(prefix="coevolve-signals-") as folder,
        evidence(args.rollouts, history, options, threshold) as found,
    ):
        shown = Shown(config.kinds)
        signals = extract(found.table, found.table.last_iteration(), config)
        write_jsonl(args.out or Path(folder) / "signals.jsonl", map(shown.seen, signals))
        report = report_of(found, shown, SUCCESS_THRESHOLD if threshold is None else threshold)
    print(json.dumps(report) if args.json else "\n".join(lines(report, args.rollouts)))
    return 0
