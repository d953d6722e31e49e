"""``coevolve verify``: an environment judges candidate tasks, wherever they come from."""

import argparse
from collections import Counter
from pathlib import Path

SHOWN = 20  # rejected lines to print
HELP = """
CANDIDATES is JSONL; a line is a candidate ({candidate_id, task, asks}) or a task alone, as in data/t/tasks.jsonl
(then nobody claims what its instruction asks for, and the gate `collateral` does not check that). A task without a task_id gets it.

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
    parser.add_argument("--json", action="store_true", help="print JSON, with all rejected lines")


def run(args: argparse.Namespace) -> int:
    import json

    from coevolve.core.io import read_tasks, write_jsonl
    from coevolve.core.progress import bar
    from coevolve.core.untrusted import one_line
    from coevolve.core.workers import local
    from coevolve.environments.registry import make
    from coevolve.stages.verify.judge import numbered_lines, unchecked, verify
    from coevolve.stages.verify.library import Library

    make(args.environment)  # an unknown name is one clear error, not a rejection of everything
    known = [task for file in args.known for task in read_tasks(file, args.environment)]
    panels = {file.stem: read_tasks(file, args.environment) for file in args.panel}
    numbered = numbered_lines(args.candidates)
    lines = list(numbered.values())
    with bar(len(lines), "verify", "candidates") as progress:
        library = Library(known, panels, args.near_duplicate)
        judged = verify(args.environment, lines, library, engine=local(), words=args.words, progress=progress.update)
    write_jsonl(args.out / "verdicts.jsonl", (verdict for verdict, _ in judged))
    write_jsonl(args.out / "accepted.jsonl", (task for verdict, task in judged if verdict.accepted))
    reasons = Counter(gate.name for verdict, _ in judged for gate in verdict.gates if gate.passed is False)
    not_checked = unchecked(verdict for verdict, _ in judged)
    refused = [
        {"line": number, "candidate_id": verdict.candidate_id, "gate": gate.name, "reason": gate.reason}
        for number, (verdict, _) in zip(numbered, judged, strict=True)
        if (gate := verdict.refusal) is not None
    ]
    count = sum(verdict.accepted for verdict, _ in judged)
    if args.json:
        told = {"accepted": count, "judged": len(judged), "rejected": refused, "not_checked": dict(not_checked)}
        print(json.dumps(told))
        return 0
    print(f"{args.out}: {count} of {len(judged)} accepted")
    for name, number in reasons.most_common():
        print(f"  {number:6d} rejected by {name}")
    for name, number in not_checked.most_common():
        print(f"  {number:6d} accepted, not checked by {name}")
    for row in refused[:SHOWN]:
        print(one_line(f"line {row['line']}: {row['gate']}: {row['reason']}"))
    if len(refused) > SHOWN:
        print(f"and {len(refused) - SHOWN} more; {args.out}/verdicts.jsonl and --json have all of them")
    return 0
