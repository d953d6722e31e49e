"""``coevolve verify``: check candidate tasks of any origin in an environment, and keep the sound ones."""

import argparse
from collections import Counter
from pathlib import Path

HELP = """
  coevolve verify --environment miniworld --candidates tasks.jsonl --out verified

Reads a JSONL file of candidates and writes two files. DIR/verdicts.jsonl has a verdict for every line, with the result and
the reason of each gate. DIR/accepted.jsonl has the tasks that passed all gates.

A line is a task as in data/t/tasks.jsonl, or a candidate: {candidate_id, task, asks}. `asks` lists the calls that the
instruction asks for. Without it, the gate `collateral` does not check the instruction for such calls.

A malformed line is a rejection, not an error. A gate that cannot check a task does not refuse it: the last lines of the output
count such tasks.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("--environment", required=True, metavar="NAME", help="an environment of `coevolve env list`")
    parser.add_argument("--candidates", type=Path, required=True, metavar="FILE", help="the tasks to check")
    parser.add_argument(
        "--known", type=Path, action="append", default=[], metavar="FILE", help="existing tasks, to refuse duplicates"
    )
    parser.add_argument(
        "--panel", type=Path, action="append", default=[], metavar="FILE", help="evaluation tasks, to refuse overlaps"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--near-duplicate", type=float, default=0.9, help="similarity from which a task is a duplicate (default: 0.9)"
    )
    parser.add_argument(
        "--words",
        choices=("none", "language", "values"),
        default="language",
        help="check that an instruction matches its reference: by the environment's phrases (default: language), by the "
        "values that the reference uses, or not at all (none)",
    )


def run(args: argparse.Namespace) -> int:
    from coevolve.core.io import read_tasks, write_jsonl
    from coevolve.core.progress import bar
    from coevolve.core.workers import local
    from coevolve.environments.registry import make
    from coevolve.stages.verify.judge import read_lines, unchecked, verify
    from coevolve.stages.verify.library import Library

    make(args.environment)  # an unknown name must be an error, not a rejection of every line
    known = [task for file in args.known for task in read_tasks(file, args.environment)]
    panels = {file.stem: read_tasks(file, args.environment) for file in args.panel}
    lines = read_lines(args.candidates)
    with bar(len(lines), "verify", "candidates") as progress:
        library = Library(known, panels, args.near_duplicate)
        judged = verify(args.environment, lines, library, engine=local(), words=args.words, progress=progress.update)
    write_jsonl(args.out / "verdicts.jsonl", (verdict for verdict, _ in judged))
    write_jsonl(args.out / "accepted.jsonl", (task for verdict, task in judged if verdict.accepted))
    reasons = Counter(gate.name for verdict, _ in judged for gate in verdict.gates if gate.passed is False)
    print(f"{args.out}: {sum(verdict.accepted for verdict, _ in judged)} of {len(judged)} accepted")
    for name, count in reasons.most_common():
        print(f"  {count:6d} rejected by {name}")
    for name, count in unchecked(verdict for verdict, _ in judged).most_common():
        print(f"  {count:6d} accepted, not checked by {name}")
    return 0
