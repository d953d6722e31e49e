"""``coevolve evaluate``: measure a policy on an environment's evaluation tasks, by category."""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from coevolve.commands.options import ENVIRONMENT, FILE, SETTINGS, settings
from coevolve.core.arithmetic import in_effect
from coevolve.core.code_closure import code_of
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.interruptions import interrupted, serious
from coevolve.core.io import write_jsonl
from coevolve.core.numeric_options import count
from coevolve.core.outcomes import LISTED, Outcome, by_task, passes, unread
from coevolve.core.scratch import claim, scratch
from coevolve.core.section import put
from coevolve.core.statistics import bootstrap, depths, unit
from coevolve.core.task import Task
from coevolve.core.terminal import Printed, apart, plain
from coevolve.core.trajectories import End
from coevolve.endpoint.client import Endpoint, open_endpoint
from coevolve.environments.environment import Environment, quarantined
from coevolve.environments.registry import make
from coevolve.policies.config import ROOMY
from coevolve.policies.endpoint_policy import EndpointPolicy
from coevolve.policies.loading import playing
from coevolve.policies.policy import Policy, Replicas
from coevolve.policies.pretrained import contents, resolve
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.evaluate.evaluation import evaluate
from coevolve.stages.report.tables import text_table
from coevolve.stages.schema import Params, parse

ROOM: dict[str, dict[str, Any]] = {  # other defaults than those of params.yaml
    "policy": {**ROOMY},
    "endpoint": {"concurrency": 16, "budget_requests": 10**9, "budget_tokens": 10**12},
    "evaluate": {"tasks": 10**9},
}
CHANGED = "\n".join(f"  {section}.{key}: {value}" for section, keys in ROOM.items() for key, value in keys.items())

HELP = f"""
  coevolve evaluate --environment bfcl --policy policies/base --split test
  coevolve evaluate --environment miniworld --policy policies/3 -S evaluate.samples=8 -S evaluate.temperature=1
  coevolve evaluate --environment bfcl --policy http://127.0.0.1:8000/v1 -S endpoint.model=Qwen/Qwen3-4B

POLICY is one of:

  a directory   a transformers model with a chat template, such as policies/base
  a URL         a model that an OpenAI-compatible server offers, asked by function calling
  reference     a player that replays each task's reference: the score of a perfect agent

-S sets `seed` and the keys of `policy`, `endpoint` and `evaluate`, which docs/parameters.md explains. Other defaults than there:

{CHANGED}

Columns and rows of the table:

  success       share of tasks solved, with half of its 95 % interval over tasks, or over kinds of tasks if there are ten
  strict        share solved under the environment's stricter rules too, if it has such rules
  ceiling       highest share that can be solved, if tasks are in quarantine
  pass@k        with evaluate.samples: unbiased estimate of the chance that at least one of k episodes succeeds
  pass^k        with evaluate.samples: unbiased estimate of the chance that all of k episodes succeed
  all           all tasks together
  mean          the mean over categories, each with the same weight, as leaderboards compute it

If an environment groups tasks into scenarios (AppWorld), a line below the table gives the share of scenarios in which every
task succeeds. Success is then AppWorld's TGC, and this share its SGC.

You may interrupt the command and run it again. With a model directory it continues where it stopped. With a served model and
--log FILE, it pays only for the replies that FILE lacks. Without --log it starts a new log and pays for all replies. Name a
new FILE if the server now offers other weights under the same name.
"""

READ = ("seed", *ROOM)
FORMER = (  # keys that had a flag, such as --max-turns
    *("seed", "evaluate.samples", "evaluate.temperature"),
    *("policy.threads", "policy.max_turns", "policy.episode_tokens", "policy.reply_tokens", "policy.max_seconds"),
    *("policy.dtype", "endpoint.url", "endpoint.model", "endpoint.key", "endpoint.concurrency", "endpoint.timeout"),
    *("endpoint.budget_requests", "endpoint.budget_tokens", "endpoint.input_price", "endpoint.output_price"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--environment", required=True, **ENVIRONMENT)
    add("--policy", required=True, metavar="POLICY", help="a model directory, a URL or reference")
    add(
        "--split",
        action="append",
        metavar="NAME",
        help="a split that `coevolve env show` lists (default: all but seed)",
    )
    add("--tasks", type=count, metavar="N", help="first N tasks of each split (default: all)")
    add("--out", **FILE, help="also write the outcome of every task (JSONL)")
    add("--log", **FILE, help="requests to a URL and replies; replies in it are used again")
    add("-S", **SETTINGS, help="set a key of seed, policy, endpoint or evaluate")
    for key in FORMER:
        flag = f"--{key.rpartition('.')[2].replace('_', '-')}"
        new = f"{flag} is now -S {key}=VALUE"
        add(flag, dest="former", action="append", type=partial(str.format, new), help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.former:
        raise CoevolveError("; ".join(args.former))
    environment = make(args.environment)
    asked = _asked(args)
    config, limits = asked.evaluate, Limits.of(asked.policy)
    splits = {split: environment.tasks(split) for split in args.split or environment.panels or ("seed",)}
    ends: list[End] = []
    printed = Printed()
    began = time.monotonic()
    with _kept(args, asked, environment, splits) as kept:
        with _opened(args, asked, environment) as (policy, endpoint):
            with redirect_stdout(printed), apart(printed, 1):
                outcomes = evaluate(policy, environment, splits, limits, config, asked.seed, kept, ends)
            if endpoint and not endpoint.spend.answered and (reasons := getattr(policy, "failures", [])):
                raise CoevolveError(f"no request got a reply: {plain(reasons[0])}")
        if kept:
            shutil.rmtree(kept, ignore_errors=True)
    seconds = time.monotonic() - began
    if args.out:
        write_jsonl(args.out, outcomes)
    urgent, notes = interrupted(ends), [*map(plain, unread(outcomes)), *printed.notes()]
    if not serious(ends):
        urgent, notes = [], [*urgent, *notes]
    print("\n".join([f"{args.environment} ({environment.fingerprint}), policy {args.policy}", *urgent]))
    for split, tasks in splits.items():
        ours = [one for one in outcomes if one.panel == split]
        show(split, ours, quarantined(environment, tasks), config, asked.seed)
        groups = {task.task_id: environment.scenario(task) for task in tasks}
        if len(set(groups.values())) < len(groups):
            print(f"share of scenarios in which every task succeeds: {_scenarios(ours, groups):.3f}")
    print("\n".join([costs(outcomes, seconds, endpoint.spend.cost if endpoint else 0.0), *notes]))
    if long := [reason for reason in getattr(policy, "failures", []) if reason.startswith("context too long")]:
        print(f"{len(long)} requests got no reply, which ended their episodes; the first reason: {plain(long[0])}")
    if left := getattr(policy, "exhausted", 0):
        print(f"{left} episodes ended because the budget was used up: the figures above are too low")
    if args.policy == "reference":
        _check_references(environment, splits, outcomes, ends)
    return 0


def _asked(args: argparse.Namespace) -> Params:
    """The parameters: those of ``ROOM``, then those of the flags and of -S."""
    values = deepcopy(ROOM)
    if args.tasks is not None:
        values["evaluate"]["tasks"] = args.tasks
    given = settings(args.settings)
    if others := [key for key in given if key.partition(".")[0] not in READ]:
        raise CoevolveError(f"-S {others[0]}: this command reads {', '.join(READ)} only")
    if "evaluate.panels" in given:
        raise CoevolveError("-S evaluate.panels: name them by --split")
    if "://" in args.policy:
        given["endpoint.url"] = args.policy
    put(values, given)
    return parse({"iterations": [{"t": 0, "next": 1}], **values}, "-S")


def _check_references(
    environment: Environment, splits: Mapping[str, Sequence[Task]], outcomes: Sequence[Outcome], ends: Sequence[End]
) -> None:
    """Raise a CoevolveError if a reference gets less than 1, although its task is not in quarantine."""
    bad = {name for tasks in splits.values() for name in quarantined(environment, tasks)}
    failed = [one for one in outcomes if one.score < 1.0 and one.task_id not in bad]
    if failed:
        first = failed[0]
        why = first.cause or ", ".join(name for name, passed in first.checks.items() if not passed)
        raise CoevolveError(
            f"{len(failed)} of {len(ends)} references get less than 1; the first is task {first.task_id} of {first.panel} "
            f"with {first.score:g}{f', which fails: {why}' if why else ''}; repair the reference or the checker, or put the "
            "item into `quarantine`"
        )
    if len(outcomes) < len(ends):
        raise CoevolveError("not all references could be played: see above")


@contextmanager
def _kept(
    args: argparse.Namespace, asked: Params, environment: Environment, splits: Mapping[str, Sequence[Task]]
) -> Iterator[Path | None]:
    """The folder that holds a model directory's episodes until all are played. None for a served model: its log holds them."""

    if not Path(args.policy).is_dir():
        yield None
        return
    tasks = {name: [task.task_id for task in found] for name, found in splits.items()}
    model = contents(resolve(Path(args.policy)))
    key = content_hash(
        [
            args.environment,
            asked.model_dump(mode="json"),
            tasks,
            model,
            environment.fingerprint,
            in_effect().name,
            code_of(Path(__file__).resolve()),
        ]
    )
    with claim(scratch() / "evaluate" / key) as kept:
        yield kept


@contextmanager
def _opened(
    args: argparse.Namespace, asked: Params, environment: Environment
) -> Iterator[tuple[Policy | Replicas, Endpoint | None]]:
    """The policy, and the server that it asks, if it asks one."""
    temperature = asked.evaluate.temperature
    if args.policy == "reference":
        yield ReferencePolicy(environment, parallel=True), None
    elif "://" in args.policy:
        log = args.log or Path(tempfile.mkdtemp(prefix="coevolve-")) / "requests.jsonl"
        endpoint = open_endpoint(asked.endpoint, log)
        try:
            yield EndpointPolicy(endpoint, temperature), endpoint
        finally:
            endpoint.close()
            print(f"{endpoint.spend}; requests and replies: {log}")
    elif Path(args.policy).is_dir():
        with playing(Path(args.policy), asked.policy, temperature) as policy:
            yield policy, None
    else:
        raise CoevolveError(
            f"--policy {args.policy}: no such directory; expected a model directory, the URL of a server, or `reference`"
        )


def show(split: str, outcomes: Sequence[Outcome], bad: set[str], config: Evaluate, seed: int) -> None:
    """Print success by category, if there are at most LISTED; ``bad`` are tasks with a known mistake."""
    strict = any("strict" in outcome.checks for outcome in outcomes)
    several = [f"pass{sign}{k}" for sign in "@^" for k in depths(config.samples)]

    def figures(ours: Sequence[Outcome]) -> tuple[list[float | None], list[str]]:
        """The values of a row, and its cells."""
        tasks = by_task(ours).values()
        successes = [_share([outcome.success for outcome in episodes]) for episodes in tasks]
        low, high = bootstrap(successes, config, seed, [episodes[0].category for episodes in tasks])
        known = passes(ours)
        row = [sum(successes) / len(successes), *(known.get(column) for column in several)]
        if strict:
            row.append(_share([outcome.success and outcome.checks.get("strict", True) for outcome in ours]))
        if bad:
            row.append(_share([outcome.task_id not in bad for outcome in ours]))
        first, *others = map(_figure, row)
        return row, [str(len(tasks)), f"{first} ±{(high - low) / 2:.3f}", *others]

    categories = dict.fromkeys(outcome.category for outcome in outcomes)
    found = {name: figures([outcome for outcome in outcomes if outcome.category == name]) for name in categories}
    total = []
    if len(found) > 1:
        columns = zip(*(row for row, _ in found.values()), strict=True)
        known = ([one for one in column if one is not None] for column in columns)
        mean, *others = (_figure(sum(column) / len(column) if column else None) for column in known)
        total = [["all", *figures(outcomes)[1]], ["mean", "", f"{mean}       ", *others]]
    names = ["category", "tasks", "success", *several, *["strict"] * strict, *["ceiling"] * bool(bad)]
    rows = [[name, *cells] for name, (_, cells) in found.items() if len(found) <= LISTED]
    Console().print(text_table(split, names, rows, total))
    print(f"±: half the {config.confidence:.0%} interval over {unit(len(found))}")


def _figure(value: float | None) -> str:
    """A cell; a dash if the environment failed so often that no task has all episodes."""
    return "–" if value is None else f"{value:.3f}"


def costs(outcomes: Sequence[Outcome], seconds: float, dollars: float) -> str:
    """The cost of each success, failures included: tokens of the agent, wall time, and USD if prices are known."""
    solved = sum(outcome.success for outcome in outcomes)
    tokens = sum(outcome.tokens for outcome in outcomes)
    if not solved:
        return f"no success in {tokens:,} tokens and {seconds:,.0f} s"
    money = f", ${dollars / solved:.4f}" if dollars else ""
    return f"each success took {tokens / solved:,.0f} tokens, {seconds / solved:,.2f} s{money}"


def _scenarios(outcomes: Sequence[Outcome], groups: Mapping[str, str]) -> float:
    """The share of scenarios in which every task succeeds: AppWorld's SGC."""
    least: dict[str, bool] = {}
    for outcome in outcomes:
        name = groups[outcome.task_id]
        least[name] = least.get(name, True) and outcome.success
    return _share(list(least.values()))


def _share(values: Sequence[bool]) -> float:
    return sum(values) / max(len(values), 1)
