"""``coevolve verify``: an environment judges candidate tasks, wherever they come from."""

import argparse
from collections import Counter
from pathlib import Path

HELP = """
CANDIDATES is JSONL; a line is a candidate ({candidate_id, task, asks}) or a task alone, as in data/t/tasks.jsonl
(then nobody claims what its instruction asks for, and the gate `collateral` does not check that).

DIR/verdicts.jsonl gets a verdict for every line, each gate with its reason; DIR/accepted.jsonl the tasks that passed.
A gate that could not check a task does not refuse it: the last lines count such tasks.
A bad line is a rejection, never an error.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("--environment", required=True, metavar="NAME")
    parser.add_argument("--candidates", type=Path, required=True, metavar="FILE")
    parser.add_argument("--known", type=Path, action="append", default=[], metavar="FILE", help="tasks that exist")
    parser.add_argument("--panel", type=Path, action="append", default=[], metavar="FILE", help="evaluation tasks")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--near-duplicate", type=float, default=0.9, help="similarity of near-duplicates (0.9)")
    parser.add_argument(
        "--words",
        choices=("none", "language", "values"),
        default="language",
        help="whether instructions ask for what references do: by the environment's own language (default), or by values too",
    )


def run(args: argparse.Namespace) -> int:
    from coevolve.core.io import read_tasks, write_jsonl
    from coevolve.core.progress import bar
    from coevolve.core.workers import local
    from coevolve.environments.registry import make
    from coevolve.stages.verify.judge import read_lines, unchecked, verify
    from coevolve.stages.verify.library import Library

    make(args.environment)  # an unknown name is one clear error, not a rejection of everything
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
