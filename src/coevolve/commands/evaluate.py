"""``coevolve evaluate``: measure a policy on an environment's evaluation tasks, by category."""

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

from rich.console import Console

from coevolve.commands.options import ENVIRONMENT, FILE
from coevolve.core.arithmetic import in_effect
from coevolve.core.code_closure import code_of
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.interruptions import interrupted, serious
from coevolve.core.io import write_jsonl
from coevolve.core.numeric_options import count, not_negative, positive, whole
from coevolve.core.outcomes import LISTED, Outcome, by_task, passes, unread
from coevolve.core.scratch import claim, scratch
from coevolve.core.statistics import bootstrap, depths, unit
from coevolve.core.task import Task
from coevolve.core.terminal import Printed, apart, plain
from coevolve.core.text_table import text_table
from coevolve.core.trajectories import End
from coevolve.core.yaml_files import validated
from coevolve.endpoint.client import Endpoint, open_endpoint
from coevolve.endpoint.config import EndpointSection
from coevolve.environments.environment import Environment, quarantined
from coevolve.environments.registry import make
from coevolve.policies.endpoint_policy import EndpointPolicy
from coevolve.policies.loading import open_model
from coevolve.policies.policy import Policy, Replicas
from coevolve.policies.pretrained import contents, resolve
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.evaluate.evaluation import evaluate

HELP = """
  coevolve evaluate --environment bfcl --policy policies/base --split test
  coevolve evaluate --environment miniworld --policy policies/3 --samples 8 --temperature 1
  coevolve evaluate --environment bfcl --policy endpoint --url http://127.0.0.1:8000/v1 --model Qwen/Qwen3-4B

POLICY is one of:

  a directory   a transformers model with a chat template, such as policies/base
  endpoint      a model that an OpenAI-compatible server offers, asked by function calling
  reference     a player that replays each task's reference: the score of a perfect agent

Columns and rows of the table:

  success       share of tasks solved, with half of its 95 % interval over tasks
  strict        share solved under the environment's stricter rules too, if it has such rules
  ceiling       highest share that can be solved, if tasks are in quarantine
  pass@k        with --samples: unbiased estimate of the chance that at least one of k episodes succeeds
  pass^k        with --samples: unbiased estimate of the chance that all of k episodes succeed
  all           all tasks together
  mean          the mean over categories, each with the same weight, as leaderboards compute it

If an environment groups tasks into scenarios (AppWorld), a line below the table gives the share of scenarios in which every
task succeeds. Success is then AppWorld's TGC, and this share its SGC.

You may interrupt the command and run it again. With a model directory it continues where it stopped. With a served model and
--log FILE, it pays only for the replies that FILE lacks. Without --log it starts a new log and pays for all replies. Name a
new FILE if the server now offers other weights under the same name.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--environment", required=True, **ENVIRONMENT)
    add("--policy", required=True, metavar="POLICY", help="a model directory, endpoint or reference")
    split = "a split that `coevolve env show` lists (default: all but seed)"
    add("--split", action="append", metavar="NAME", help=split)
    add("--tasks", type=count, default=10**9, metavar="N", help="first N tasks of each split (default: all)")
    add("--samples", type=count, default=1, metavar="K", help="episodes per task, for pass@k and pass^k")
    add("--temperature", type=not_negative, default=0.0, help="0 is greedy")
    add("--seed", type=whole, default=0, help="seed of sampling and of intervals")
    add("--max-turns", type=count, default=100, help="replies in an episode")
    add("--episode-tokens", type=count, default=32768, help="tokens in an episode")
    add("--reply-tokens", type=count, default=1024, help="tokens in a reply")
    add("--max-seconds", type=positive, default=900.0, help="limit for a call that never ends")
    add("--dtype", choices=("float32", "bfloat16"), default="float32", help="type of the weights")
    add("--threads", type=count, default=1, help="torch threads")
    add("--out", **FILE, help="also write the outcome of every task (JSONL)")
    add = parser.add_argument_group("a served model (--policy endpoint)").add_argument
    add("--url", default="http://127.0.0.1:8000/v1", help="address of the server")
    add("--model", default="", help="the model's name on the server")
    add("--key", default="OPENAI_API_KEY", metavar="VARIABLE", help="environment variable with the key")
    add("--concurrency", type=count, default=16, help="requests at the same time")
    add("--timeout", type=positive, default=120.0, help="seconds that a reply may take")
    add("--budget-requests", type=whole, default=10**9, metavar="N", help="most requests (default: no limit)")
    add("--budget-tokens", type=whole, default=10**12, metavar="TOKENS", help="most tokens (default: no limit)")
    add("--input-price", type=not_negative, default=0.0, metavar="USD", help="price of a million prompt tokens")
    add("--output-price", type=not_negative, default=0.0, metavar="USD", help="price of a million tokens of replies")
    add("--log", **FILE, help="file of requests and replies; replies in it are used again")


def run(args: argparse.Namespace) -> int:
    if args.samples > 1 and args.temperature == 0.0:
        raise CoevolveError(
            "--samples: at temperature 0 all episodes of a task are the same; set --temperature too, for example to 1"
        )
    environment = make(args.environment)
    splits = {split: environment.tasks(split) for split in args.split or environment.panels or ("seed",)}
    chosen = {name: getattr(args, name) for name in ("tasks", "samples", "temperature")}
    config = Evaluate(panels=None, bootstrap=2000, confidence=0.95, **chosen)
    limits = Limits(args.max_turns, args.episode_tokens, args.reply_tokens, args.max_seconds)
    ends: list[End] = []
    printed = Printed()
    began = time.monotonic()
    with _kept(args, environment, splits) as kept:
        with _opened(args, environment) as (policy, endpoint):
            with redirect_stdout(printed), apart(printed, 1):
                outcomes = evaluate(policy, environment, splits, limits, config, args.seed, kept, ends)
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
        show(split, ours, quarantined(environment, tasks), config, args.seed)
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
    args: argparse.Namespace, environment: Environment, splits: Mapping[str, Sequence[Task]]
) -> Iterator[Path | None]:
    """The folder that holds a model directory's episodes until all are played. None for a served model: its log holds them."""

    if not Path(args.policy).is_dir():
        yield None
        return
    asked = {name: value for name, value in vars(args).items() if isinstance(value, str | int | float | bool | None)}
    tasks = {name: [task.task_id for task in found] for name, found in splits.items()}
    model = contents(resolve(Path(args.policy)))
    key = content_hash(
        [asked, tasks, model, environment.fingerprint, in_effect().name, code_of(Path(__file__).resolve())]
    )
    with claim(scratch() / "evaluate" / key) as kept:
        yield kept


@contextmanager
def _opened(args: argparse.Namespace, environment: Environment) -> Iterator[tuple[Policy | Replicas, Endpoint | None]]:
    """The policy, and the server that it asks, if it asks one."""
    if args.policy == "reference":
        yield ReferencePolicy(environment, parallel=True), None
    elif args.policy == "endpoint":
        given = {name: value for name, value in vars(args).items() if name in EndpointSection.model_fields}
        log = args.log or Path(tempfile.mkdtemp(prefix="coevolve-")) / "requests.jsonl"
        endpoint = open_endpoint(validated(EndpointSection, given, "endpoint"), log)
        try:
            yield EndpointPolicy(endpoint, args.temperature), endpoint
        finally:
            endpoint.close()
            print(f"{endpoint.spend}; requests and replies: {log}")
    elif Path(args.policy).is_dir():
        policy = open_model(Path(args.policy), args.threads, args.dtype, args.temperature, {})
        with policy if isinstance(policy, Replicas) else nullcontext():
            yield policy, None
    else:
        raise CoevolveError(
            f"--policy {args.policy}: no such directory; expected a model directory, `endpoint`, or `reference`"
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
