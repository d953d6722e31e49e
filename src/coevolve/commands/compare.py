"""``coevolve compare``: compare policies of this workspace, of DVC experiments, of git revisions or of the registry."""

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coevolve.commands.options import FILE
from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.io import parse, parse_jsonl, write_text
from coevolve.core.outcomes import OUTCOMES, Outcome
from coevolve.core.paths import Paths
from coevolve.core.section import read_yaml
from coevolve.core.stage_seconds import seconds
from coevolve.core.statistics import KINDS
from coevolve.core.task import Task
from coevolve.core.untrusted import one_line
from coevolve.lineage.comparison import Side, differences, gains, history, partly
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.report.run_summary import SUMMARY, Summary
from coevolve.stages.report.tables import number, text_table
from coevolve.tracking.mlflow_store import store
from coevolve.tracking.record import POLICY

HELP = """
A SIDE names a policy:

  3        policies/3 of this workspace
  NAME     the last policy of a DVC experiment or git revision
  NAME:2   policies/2 of that experiment or revision
  v5       version 5 of the registered model

The command compares each SIDE with the first SIDE, task by task. A star marks a gain over ten tasks or more whose confidence
interval excludes zero.
The command reads files from DVC's cache and checks nothing out.

  coevolve compare                   # policies/0 with the last policy
  coevolve compare 2 3
  coevolve compare small large:2 --html report/compare.html
"""
WORKSPACE = "workspace"
LEGEND = (
    f"from, to: the 95 % interval of the gain, paired by task, over kinds of tasks if there are {KINDS} or more; *: it excludes zero; lost: the first policy solves the task, "
    "this one fails"
)
SHOWN = 5  # lost tasks to name
WORDS = 80  # characters of their instructions
PAGE = 120  # columns of a page or a pipe


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sides", nargs="*", metavar="SIDE", help="a policy (default: policies/0 and the last policy)")
    parser.add_argument("--html", **FILE, help="also write the tables as one self-contained page")


def run(args: argparse.Namespace) -> int:
    sides = [_side(name) for name in args.sides] if args.sides else [_side("0"), _side(WORKSPACE)]
    if len(sides) < 2:
        sides.insert(0, _side("0"))
    width = None if sys.stdout.isatty() and args.html is None else PAGE
    console = Console(record=args.html is not None, highlight=False, width=width)
    for part in tables(sides):
        console.print(part)
    if args.html:
        write_text(args.html, console.export_html())
        print(f"wrote {args.html}")
    return 0


def _side(text: str) -> Side:
    """The policy that ``text`` names."""
    from dvc.api import DVCFileSystem

    revision, t, digest = _parsed(text)
    try:
        files = DVCFileSystem(rev=None if revision == WORKSPACE else revision)
        summary = parse(Summary, json.loads(files.read_text(str(SUMMARY))), f"{text}: {SUMMARY}")
        last = summary.last
        t = last if t is None else t
        if not 0 <= t <= last:
            raise CoevolveError(f"{text}: there is no policies/{t}; expected 0 to {last}")
        played = files.read_text(str(Paths.evaluation(t) / OUTCOMES))
        policy = _hash(files, Paths.policy(t))
        if digest and digest != policy:
            raise CoevolveError(f"{text} was policies/{t} of an earlier run in {revision}, which is no longer here")
        params = read_yaml(files.read_text("params.yaml"), f"{text}: params.yaml")
        world = json.loads(files.read_text(str(Paths.environment)))["fingerprint"]
    except CoevolveError:
        raise
    except FileNotFoundError as error:
        raise CoevolveError(
            f"{text}: {Path(str(error.filename or error)).name} is missing; run `dvc repro` and commit dvc.lock, or `dvc pull` if it ran elsewhere"
        ) from None
    except Exception as error:  # DVC and git have many ways to say that a revision is unknown
        raise CoevolveError(
            f"{text}: no such policy, experiment or revision ({first_line(error)}); `dvc exp list` prints the names"
        ) from None
    took = seconds(revision).get(f"evaluate/{t}")
    outcomes = parse_jsonl(played, Outcome, text)
    return Side(f"{revision}:{t}", t, params, summary, outcomes, took, _words(files, outcomes), world, policy)


def _hash(files: Any, policy: Path) -> str:
    """The ``policy_hash`` of a policy. DVC knows the hashes of its files without reading or fetching them."""
    digest = hashlib.md5(usedforsecurity=False)
    for file in sorted(map(Path, files.find(str(policy)))):
        digest.update(f"{file.relative_to(policy)}\0{files.info(str(file))['dvc_info']['md5']}\n".encode())
    return digest.hexdigest()


def _words(files: Any, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """The instructions of the played tasks by id, as far as the panels' files are in DVC's cache."""
    words = {}
    for panel in dict.fromkeys(outcome.panel.partition(".")[0] for outcome in outcomes):
        with suppress(FileNotFoundError):
            path = str(Paths.panel(panel))
            words.update(
                {task.task_id: " ".join(task.turns) for task in parse_jsonl(files.read_text(path), Task, path)}
            )
    return words


def _parsed(text: str) -> tuple[str, int | None, str | None]:
    """The revision and the iteration that ``text`` names, and the policy's hash if known. Iteration None is the last one."""
    if text.isdigit():
        return WORKSPACE, int(text), None
    if text.startswith("v") and text[1:].isdigit():
        return _version(text[1:])
    revision, colon, t = text.rpartition(":")
    if colon and t.isdigit():
        return revision or WORKSPACE, int(t), None
    return text, None, None


def _version(number: str) -> tuple[str, int, str]:
    """The experiment and iteration that a version of the registered model came from, and its hash."""
    import mlflow
    from mlflow.exceptions import MlflowException

    mlflow.set_tracking_uri(store())
    try:
        tags = mlflow.MlflowClient().get_model_version(POLICY, number).tags
    except MlflowException as error:
        raise CoevolveError(f"v{number}: {first_line(error)}; `coevolve ui` lists the versions of {POLICY}") from None
    return tags["coevolve.experiment"], int(tags["coevolve.iteration"]), tags["dvc.hash"]


def tables(sides: Sequence[Side]) -> list[Any]:
    """The printed tables and lines: which tasks the policies solve and lost, then how they were made at what cost."""
    names = [side.name for side in sides]
    settings = [[key, *map(str, values)] for key, values in differences(sides).items()]
    histories = [history(side) for side in sides]
    keys = dict.fromkeys(key for figures in histories for key in figures)
    past = [[key, *(number(figures.get(key)) for figures in histories)] for key in keys]
    panels = list(dict.fromkeys(outcome.panel for outcome in sides[0].outcomes))
    measured = {panel: [side.metrics(panel) for side in sides] for panel in panels}
    spent = {panel: [one.tokens_per_success if one else None for one in metrics] for panel, metrics in measured.items()}
    costs = [[panel, *(number(tokens and round(tokens)) for tokens in values)] for panel, values in spent.items()]
    times = [side.seconds_per_success() for side in sides]
    if any(time is not None for time in times):
        costs.append(["seconds, all panels", *map(number, times)])
    lost: list[str] = []
    parts: list[Any] = [_gains(sides[0], side, lost) for side in sides[1:]]
    several = [(panel, [one.several if one else {} for one in metrics]) for panel, metrics in measured.items()]
    if passes := [
        [f"{panel} {key}", *(number(figures.get(key)) for figures in known)]
        for panel, known in several
        for key in dict.fromkeys(key for figures in known for key in figures)
    ]:
        parts.append(text_table("Several episodes per task", ["panel", *names], passes))
    return [
        *parts,
        LEGEND,
        *lost,
        text_table("Settings and history", ["", *names], settings, past),
        text_table("Tokens per success, including the tokens of failed episodes", ["panel", *names], costs),
    ]


def _gains(base: Side, side: Side, lost: list[str]) -> Table:
    """The gain of ``side`` over ``base`` on each panel. Lines about the tasks that it lost are added to ``lost``."""
    config = Evaluate(panels=None, tasks=1, samples=1, temperature=0.0, bootstrap=2000, confidence=0.95)
    words = {**base.words, **side.words}
    rows = []
    for gain in gains(base, side, config):
        difference = f"{gain.gain:+.3f}{'*' if gain.sure else ' '}"
        interval = [f"{gain.low:+.3f}", f"{gain.high:+.3f}"]
        count = len(gain.regressions)
        success = [f"{gain.base:.3f}", f"{gain.challenger:.3f}"]
        rows.append([gain.panel, *success, difference, *interval, str(count), str(gain.tasks), str(gain.kinds)])
        if count:
            more = f", among them {SHOWN}" if count > SHOWN else ""
            lost.append(f"{side.name} lost {count} task{'s' * (count > 1)} on {gain.panel}{more}:")
        for task in gain.regressions[:SHOWN]:
            lost.append(f"  {task}  {escape(one_line(words.get(task, ''), WORDS))}".rstrip())
    lost += partly(base, side)
    if base.digest and base.digest == side.digest:
        lost.append(f"{side.name} is the same policy as {base.name}, byte by byte, so equal evaluations gain 0")
    columns = ["panel", base.name, side.name, "gain", "from", "to", "lost", "tasks", "kinds"]
    return text_table(f"{side.name} against {base.name}", columns, rows)
