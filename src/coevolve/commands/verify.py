"""``coevolve verify``: check candidate tasks of any origin in an environment, and keep the sound ones."""

import argparse
import json
from collections import Counter

from coevolve.commands.options import DIR, ENVIRONMENT, FILE, SWITCH
from coevolve.core.io import write_jsonl
from coevolve.core.numeric_options import share
from coevolve.core.progress import bar
from coevolve.core.untrusted import one_line
from coevolve.core.workers import local
from coevolve.stages.verify.candidates import by_name, lines, verify
from coevolve.stages.verify.judge import accepted, unchecked

SHOWN = 10  # rejected candidates on the terminal, each with its reason

HELP = """
  coevolve verify --environment miniworld --candidates tasks.jsonl --out verified

Reads a JSONL file of candidates and writes two files. DIR/verdicts.jsonl has a verdict for every line, with the result and
the reason of each gate. DIR/accepted.jsonl has the tasks that passed all gates.

A line is a task as in data/t/tasks.jsonl, or a candidate: {candidate_id, task, asks}. `asks` lists the calls that the
instruction asks for. Without it, the gate `collateral` does not check the instruction for such calls.

A malformed line is a rejection, not an error. The terminal shows the first ten rejections. A gate that cannot check a task
does not refuse it: the last lines of the output count such tasks.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--environment", required=True, **ENVIRONMENT)
    add("--candidates", required=True, **FILE, help="the tasks to check")
    add("--known", action="append", default=[], **FILE, help="existing tasks, to refuse duplicates")
    add("--panel", action="append", default=[], **FILE, help="evaluation tasks, to refuse overlaps")
    add("--out", required=True, **DIR, help="the folder to write")
    add("--fail", **SWITCH, help="exit with 1 if a candidate is rejected")
    add("--json", **SWITCH, help="print JSON, with all rejected candidates")
    add("--near-duplicate", type=share, default=0.9, help="similarity from which a task is a duplicate")
    add(
        "--words",
        choices=("none", "language", "values"),
        default="language",
        help="check that an instruction matches its reference: language, by the environment's phrases; values, by the values "
        "that the reference uses too; none, not at all",
    )


def run(args: argparse.Namespace) -> int:
    candidates = lines(args.candidates)
    with bar(len(candidates), "verify", "candidates") as progress:
        judged = verify(
            args.environment,
            candidates,
            known=args.known,
            panels=by_name(args.panel),
            near_duplicate=args.near_duplicate,
            words=args.words,
            engine=local(),
            progress=progress.update,
        )
    verdicts = [one.verdict for one in judged]
    write_jsonl(args.out / "verdicts.jsonl", verdicts)
    write_jsonl(args.out / "accepted.jsonl", accepted(judged))
    reasons = Counter(gate.name for verdict in verdicts for gate in verdict.gates if gate.passed is False)
    refused = [(number, verdict, gate) for number, verdict in enumerate(verdicts, 1) if (gate := verdict.refusal)]
    not_checked = unchecked(verdicts)
    if args.json:
        rejected = [
            {"candidate": number, "candidate_id": verdict.candidate_id, "gate": gate.name, "reason": gate.reason}
            for number, verdict, gate in refused
        ]
        counts = {"accepted": len(accepted(judged)), "judged": len(judged), "not_checked": dict(not_checked)}
        print(json.dumps({**counts, "rejected": rejected}))
        return 1 if args.fail and reasons else 0
    print(f"{args.out}: {len(accepted(judged))} of {len(judged)} accepted")
    for name, count in reasons.most_common():
        print(f"  {count:6d} rejected by {name}")
    for number, _, gate in refused[:SHOWN]:
        print(f"         candidate {number}: {gate.name}: {one_line(gate.reason)}")
    for name, count in not_checked.most_common():
        print(f"  {count:6d} accepted, not checked by {name}")
    return 1 if args.fail and reasons else 0
