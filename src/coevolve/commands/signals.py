"""``coevolve signals``: find an agent's weaknesses in the trajectories of any trainer."""

import argparse
import json
from collections import Counter
from dataclasses import asdict

from coevolve.commands.options import FILE, SWITCH
from coevolve.core.io import parse, read_jsonl_values, read_tasks, write_jsonl
from coevolve.core.numeric_options import count, not_negative
from coevolve.core.records import Signal
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.from_trajectories import absences, stream
from coevolve.stages.signals.kinds import KINDS
from coevolve.stages.signals.load import local_files
from coevolve.stages.signals.strongest import first_requests, strongest, subject, table_lines

WIDTH = max(map(len, KINDS)) + 2
KIND_LINES = "\n".join(f"{kind.name:{WIDTH}}{kind.condition}" for kind in KINDS.values())
HELP = f"""
  coevolve signals trajectories.parquet --out signals.jsonl

TRAJECTORIES is a JSONL or Parquet file with a row per episode. The command reads several files as one table. Name them one
by one, by a quoted glob ('runs/**/*.parquet'), or by addresses of an object store (s3://bucket/runs/*.parquet; install s3fs).

  required columns   task_id text, step integer, score number (success is score >= 0.5)
  optional columns   iteration integer, trajectory_id text, calls list of {{name, ok}}, stop_reason text

Each line of FILE is a signal: its kind, its evidence, and the trajectories that show it. A visit is all episodes of a task in
a training step. The kinds are:

{KIND_LINES}

The terminal shows the ten strongest signals, with the words of their tasks if TRAJECTORIES is Parquet with messages, or if
--known names the tasks.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    defaults = Signals()
    add = parser.add_argument
    add("trajectories", nargs="+", metavar="TRAJECTORIES", help="a JSONL or Parquet file")
    add("--out", required=True, **FILE, help="the file of signals to write (JSONL)")
    add("--window", type=count, default=defaults.window, metavar="W", help="visits that forgetting compares")
    limit = "limit of rare, in percent"
    add("--rare-threshold", type=not_negative, default=defaults.rare_threshold, metavar="THETA", help=limit)
    add("--history", **FILE, help="earlier attempts at the tasks (JSONL)")
    kinds = f"kinds to look for (default: {' '.join(defaults.kinds)})"
    add("--kinds", nargs="+", choices=list(KINDS), default=defaults.kinds, help=kinds)
    add("--known", **FILE, help="tasks, to print the words of those that are weak")
    add("--json", **SWITCH, help="print JSON")


def run(args: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    signals = stream(args.trajectories, args.history, args.window, args.rare_threshold, args.kinds)
    write_jsonl(args.out, (counts.update([signal.kind]) or signal for signal in signals))
    shown = strongest(parse(Signal, value, str(args.out)) for _, value in read_jsonl_values(args.out))
    words = first_requests(local_files(args.trajectories), [signal.task_id for signal in shown if signal.task_id])
    if args.known is not None:
        words |= {task.task_id: " / ".join(task.turns) for task in read_tasks(args.known)}
    if args.json:
        rows = [{**asdict(signal), "subject": subject(signal, words)} for signal in shown]
        print(json.dumps({"signals": {kind: counts[kind] for kind in args.kinds}, "strongest": rows}))
        return 0
    print(f"{args.out}: " + ", ".join(f"{counts[kind]} {kind}" for kind in args.kinds))
    if absent := [kind for kind in args.kinds if not counts[kind]]:
        print(*absences(args.trajectories, args.history, args.rare_threshold, absent), sep="\n")
    for line in table_lines(shown, {task: f"{task}: {text}" for task, text in words.items()}):
        print(line)
    return 0
