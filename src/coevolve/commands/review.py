"""``coevolve review``: people accept, reject or reword the tasks that the loop made."""

import argparse
import getpass
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import count, whole
from coevolve.core.terminal import plain, typed

if TYPE_CHECKING:
    from rich.console import Console

    from coevolve.core.records import Candidate, Verdict
    from coevolve.core.reviews import Review

HELP = """
Shows tasks of an iteration in random order, each with the calls of its reference and the result of the gates. Answer each:

  a             accept: the instruction asks for the calls of the reference, and a person might say it
  r WHY         reject, with a reason
  w NEW WORDS   reword: keep the task and replace its instruction (if it has several turns: w 2 NEW WORDS for the second)
  s             skip
  q or Ctrl-D   stop for now

The command appends each answer to reviews/REVIEWER.jsonl at once. Your second answer about a task replaces your first.
Commit the file: at the next `dvc repro`, stage `validate` quarantines the tasks that a reviewer rejected, and the loop trains
on the new words. New words pass the gates again: `validate` quarantines a task whose new words no longer match its reference,
or repeat another task or an evaluation task. The report page asks the same questions and saves a file for the folder.

  coevolve review                        # 20 accepted tasks of the last iteration
  coevolve review --rejected --count 50  # refused tasks: do the gates refuse sound tasks?
  coevolve review --summary [--json]     # how often reviewers and gates agree, per gate
"""
STYLES = {"accept": "green", "reject": "red", "reword": "yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument(
        "--iteration", type=whole, metavar="T", help="the iteration (default: the last with verified tasks)"
    )
    parser.add_argument("--count", type=count, default=20, metavar="N", help="most tasks to show (default: 20)")
    parser.add_argument("--rejected", action="store_true", help="show the tasks that the gates refused")
    parser.add_argument("--reviewer", metavar="NAME", help="your name (default: the name of the user account)")
    parser.add_argument("--summary", action="store_true", help="ask nothing; print a table of all decisions")
    parser.add_argument("--json", action="store_true", help="with --summary: print JSON")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from coevolve.core.paths import Paths
    from coevolve.core.reviews import file_of, read_reviews

    if args.json and not args.summary:
        raise CoevolveError("--json: works only with --summary")
    if args.summary:
        return _summary(args.json)
    reviewer = args.reviewer or getpass.getuser()
    file = file_of(reviewer)
    t = _last() if args.iteration is None else args.iteration
    if not (Paths.verified(t) / "verdicts.jsonl").exists():
        raise CoevolveError(f"{Paths.verified(t)}: holds no verdicts; run `dvc repro`, or name another --iteration")
    done = {one.task_id for one in read_reviews() if one.reviewer == reviewer}
    waiting = [(verdict, one) for verdict, one in _made(t, args.rejected) if one.task.task_id not in done]
    console = Console(highlight=False)
    kind = "refused" if args.rejected else "accepted"
    console.print(
        f"{len(waiting)} {kind} tasks of iteration {t} wait for a decision of {reviewer}: a, r, w, s or q", style="dim"
    )
    answers = _answers(console, _drawn(waiting, t, reviewer)[: args.count], reviewer)
    count = 0
    for review in answers:
        _append(review)
        count += 1
    console.print(
        f"{count} decisions in {file}; commit it, then run `dvc repro`" if count else "no decisions", style="dim"
    )
    return 0


def _last() -> int:
    from coevolve.core.paths import Paths
    from coevolve.lineage.ancestry import iterations

    found = [t for t in iterations() if (Paths.verified(t) / "verdicts.jsonl").exists()]
    if not found:
        raise CoevolveError("data: no iteration has verdicts; run `dvc repro`")
    return found[-1]


def _made(t: int, rejected: bool) -> list[tuple["Verdict", "Candidate"]]:
    """The candidates that iteration ``t`` accepted, or the readable candidates that it ``rejected``, with their verdicts."""
    from coevolve.core.io import read_jsonl
    from coevolve.core.paths import Paths
    from coevolve.core.records import Candidate, Verdict

    candidates = {one.candidate_id: one for one in read_jsonl(Paths.candidates(t), Candidate)}
    verdicts = read_jsonl(Paths.verified(t) / "verdicts.jsonl", Verdict)
    return [
        (one, candidates[one.candidate_id])
        for one in verdicts
        if one.accepted is not rejected and one.candidate_id in candidates
    ]


def _drawn(
    waiting: Sequence[tuple["Verdict", "Candidate"]], t: int, reviewer: str
) -> list[tuple["Verdict", "Candidate"]]:
    """Shuffle ``waiting`` by the reviewer's name, so that several reviewers see different tasks first."""
    from coevolve.core.seeding import derive_seed

    return sorted(waiting, key=lambda one: derive_seed("review", reviewer, t, one[1].task.task_id))


def _answers(console: "Console", waiting: Sequence[tuple["Verdict", "Candidate"]], reviewer: str) -> Iterator["Review"]:
    lines = typed()
    for number, (verdict, candidate) in enumerate(waiting, 1):
        _show(console, f"{number} of {len(waiting)}", verdict, candidate)
        while True:
            line = next(lines, "q")
            if line == "q":
                return
            if line == "s":
                break
            try:
                yield _decision(line, candidate, reviewer)
            except CoevolveError as error:
                console.print(str(error), style="red", markup=False)
                continue
            break


def _decision(line: str, candidate: "Candidate", reviewer: str) -> "Review":
    from coevolve.core.reviews import Review
    from coevolve.stages.verify.gates import unreadable

    task, (word, _, rest) = candidate.task, line.partition(" ")
    rest = rest.strip()
    if word == "a" and not rest:
        return Review(task.task_id, "accept", reviewer)
    if word == "r" and rest:
        return Review(task.task_id, "reject", reviewer, rest)
    if word == "w" and rest:
        turns = list(task.turns)
        number, _, text = rest.partition(" ")
        if len(turns) > 1 and not (number.isdecimal() and 1 <= int(number) <= len(turns) and text.strip()):
            raise CoevolveError(f"expected w, the number of a turn (1 to {len(turns)}), and its new words")
        place = int(number) - 1 if len(turns) > 1 else 0
        turns[place] = text.strip() if len(turns) > 1 else rest
        if complaint := unreadable(turns):
            raise CoevolveError(f"{complaint}; type the new words without it")
        return Review(task.task_id, "reword", reviewer, turns=turns)
    raise CoevolveError("expected a, r WHY, w NEW WORDS, s or q; `coevolve review --help` explains them")


def _show(console: "Console", place: str, verdict: "Verdict", candidate: "Candidate") -> None:
    from coevolve.stages.verify.select import GATE

    task = candidate.task
    rate = "" if verdict.pass_rate is None else f", the policy solves {verdict.pass_rate:.0%} of its episodes"
    gate = verdict.refusal
    if gate is not None and gate.name == GATE:
        refused = ", passed every gate, but the selection kept more learnable tasks"
    else:
        refused = f", refused by {gate.name}: {gate.reason}" if gate else ""
    console.print(plain(f"\n{place}: task {task.task_id}{rate}{refused}"), style="dim", markup=False)
    asked = {tuple(one) for one in candidate.asks}
    for turn, (words, calls) in enumerate(zip(task.turns, task.reference, strict=True)):
        console.print(plain(words), style="bold cyan", markup=False)
        for row, call in enumerate(calls):
            arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
            style = "green" if (turn, row) in asked else "dim green"
            console.print(plain(f"  {call.name}({arguments})"), style=style, markup=False)


def _append(review: "Review") -> None:
    """Add a line to the reviewer's file. A failed write leaves the file unchanged."""
    from dataclasses import asdict

    from coevolve.core.io import read_text, write_text
    from coevolve.core.reviews import file_of

    file = file_of(review.reviewer)
    earlier = read_text(file) if file.exists() else ""
    newline = "\n" if earlier and not earlier.endswith("\n") else ""
    write_text(file, f"{earlier}{newline}{json.dumps(asdict(review), ensure_ascii=True)}\n")


def _summary(as_json: bool) -> int:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from coevolve.core.io import read_jsonl
    from coevolve.core.paths import Paths
    from coevolve.core.records import Verdict
    from coevolve.core.reviews import DECISIONS, agreed, by_gate, decided, read_reviews
    from coevolve.lineage.ancestry import iterations

    files = [Paths.verified(t) / "verdicts.jsonl" for t in iterations()]
    verdicts = [one for file in files if file.exists() for one in read_jsonl(file, Verdict)]
    counts = by_gate(verdicts, decided(read_reviews()))
    same, total = agreed(counts)
    if as_json:
        table = {gate: {name: found[name] for name in DECISIONS} for gate, found in counts.items()}
        print(json.dumps({"reviewed": total, "agreed": same, "gates": table}))
        return 0
    if not total:
        print("no decisions about tasks of this run yet; see `coevolve review --help`")
        return 0
    shown = Table(box=box.SIMPLE_HEAD, title="Decisions of reviewers, by verdict of the gates", title_justify="left")
    shown.add_column("accepted, or refused by")
    for name in DECISIONS:
        shown.add_column(f"reviewers: {name}", justify="right")
    for gate, found in counts.items():
        shown.add_row(gate, *(str(found[name]) for name in DECISIONS))
    Console().print(shown)
    print(f"reviewers and gates agree on {same} of {total} tasks")
    return 0
