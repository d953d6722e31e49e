"""``coevolve evaluate``: measure a policy on an environment's evaluation tasks, by category."""

import argparse
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import count, not_negative, positive, whole
from coevolve.core.terminal import plain

if TYPE_CHECKING:
    from coevolve.core.outcomes import Outcome
    from coevolve.core.task import Task
    from coevolve.environments.environment import Environment
    from coevolve.policies.policy import Policy
    from coevolve.policies.replicas import Replicas
    from coevolve.stages.evaluate.config import Evaluate

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
  all           the mean over categories, each with the same weight, as leaderboards compute it

If an environment groups tasks into scenarios (AppWorld), a line below the table gives the share of scenarios in which every
task succeeds. Success is then AppWorld's TGC, and this share its SGC.

You may interrupt the command and run it again. With a model directory it continues where it stopped. With a served model and
--log FILE, it pays only for the replies that FILE lacks. Without --log it starts a new log and pays for all replies. Name a
new FILE if the server now offers other weights under the same name.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("--environment", required=True, metavar="NAME", help="an environment of `coevolve env list`")
    parser.add_argument("--policy", required=True, metavar="POLICY", help="a model directory, endpoint or reference")
    parser.add_argument(
        "--split",
        action="append",
        metavar="NAME",
        help="a split that `coevolve env show` lists (default: all but seed)",
    )
    parser.add_argument(
        "--tasks", type=count, default=10**9, metavar="N", help="first N tasks of each split (default: all)"
    )
    parser.add_argument(
        "--samples", type=count, default=1, metavar="K", help="episodes per task, for pass@k and pass^k (default: 1)"
    )
    parser.add_argument("--temperature", type=not_negative, default=0.0, help="0 is greedy (default: 0)")
    parser.add_argument("--seed", type=whole, default=0, help="seed of sampling and of intervals (default: 0)")
    parser.add_argument("--max-turns", type=count, default=100, help="replies in an episode (default: 100)")
    parser.add_argument("--episode-tokens", type=count, default=32768, help="tokens in an episode (default: 32768)")
    parser.add_argument("--reply-tokens", type=count, default=1024, help="tokens in a reply (default: 1024)")
    parser.add_argument(
        "--max-seconds", type=positive, default=900.0, help="limit for a call that never ends (default: 900)"
    )
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="type of the weights (default: float32)"
    )
    served = parser.add_argument_group("a served model (--policy endpoint)")
    served.add_argument(
        "--url", default="http://127.0.0.1:8000/v1", help="address of the server (default: http://127.0.0.1:8000/v1)"
    )
    served.add_argument("--model", default="", help="the model's name on the server")
    served.add_argument("--key", default="OPENAI_API_KEY", metavar="VARIABLE", help="environment variable with the key")
    served.add_argument("--concurrency", type=count, default=16, help="requests at the same time (default: 16)")
    served.add_argument("--timeout", type=positive, default=120.0, help="seconds that a reply may take (default: 120)")
    served.add_argument(
        "--budget-requests", type=whole, default=10**9, metavar="N", help="most requests (default: no limit)"
    )
    served.add_argument(
        "--budget-tokens", type=whole, default=10**12, metavar="TOKENS", help="most tokens (default: no limit)"
    )
    served.add_argument(
        "--input-price",
        type=not_negative,
        default=0.0,
        metavar="USD",
        help="price of a million prompt tokens (default: 0)",
    )
    served.add_argument(
        "--output-price",
        type=not_negative,
        default=0.0,
        metavar="USD",
        help="price of a million tokens of replies (default: 0)",
    )
    served.add_argument(
        "--log", type=Path, metavar="FILE", help="file of requests and replies; replies in it are used again"
    )
    parser.add_argument("--threads", type=count, default=1, help="torch threads (default: 1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the outcome of every task (JSONL)")


def run(args: argparse.Namespace) -> int:
    from coevolve.core.io import write_jsonl
    from coevolve.core.trajectories import StopReason
    from coevolve.environments.environment import quarantined
    from coevolve.environments.registry import make
    from coevolve.rollout import Limits
    from coevolve.stages.evaluate.config import Evaluate
    from coevolve.stages.evaluate.evaluation import evaluate, left_out

    if args.samples > 1 and args.temperature == 0.0:
        raise CoevolveError(
            "--samples: at temperature 0 all episodes of a task are the same; set --temperature too, for example to 1"
        )
    environment = make(args.environment)
    splits = {split: environment.tasks(split) for split in args.split or environment.panels}
    config = Evaluate(
        panels=None,
        tasks=args.tasks,
        samples=args.samples,
        temperature=args.temperature,
        bootstrap=2000,
        confidence=0.95,
    )
    limits = Limits(args.max_turns, args.episode_tokens, args.reply_tokens, args.max_seconds)
    failed: Counter[str] = Counter()
    began = time.monotonic()
    with _kept(args, environment, splits) as kept:
        policy, close = _policy(args, environment)
        try:
            outcomes = evaluate(policy, environment, splits, limits, config, args.seed, kept, failed)
        finally:
            dollars = close()
        if kept:
            shutil.rmtree(kept, ignore_errors=True)
    seconds = time.monotonic() - began
    if args.out:
        write_jsonl(args.out, outcomes)
    played = sum(min(len(tasks), args.tasks) for tasks in splits.values()) * args.samples
    print(f"{args.environment} ({environment.fingerprint}), policy {args.policy}")
    for split, tasks in splits.items():
        ours = [one for one in outcomes if one.panel == split]
        show(split, ours, quarantined(environment, tasks), config, args.seed, args.samples)
        groups = {task.task_id: environment.scenario(task) for task in tasks}
        if len(set(groups.values())) < len(groups):
            print(f"share of scenarios in which every task succeeds: {_scenarios(ours, groups):.3f}")
    print(costs(outcomes, seconds, dollars))
    if len(outcomes) < played:
        print(left_out(played - len(outcomes), played, failed))
    if late := sum(outcome.stop_reason == StopReason.TIMEOUT for outcome in outcomes):
        print(f"{late} episodes ended as {StopReason.TIMEOUT}: a call did not end within --max-seconds")
    if failures := getattr(policy, "failures", []):
        print(
            f"{len(failures)} replies never arrived and count as failures of the policy; the first error: {plain(str(failures[0]))}"
        )
    if left := getattr(policy, "exhausted", 0):
        print(f"{left} episodes ended because the budget was used up: the figures above are too low")
    return 0


@contextmanager
def _kept(
    args: argparse.Namespace, environment: "Environment", splits: Mapping[str, Sequence["Task"]]
) -> Iterator[Path | None]:
    """The folder that holds a model directory's episodes until all are played. None for a served model: its log holds them."""
    from coevolve.core.arithmetic import in_effect
    from coevolve.core.code_digest import code_of
    from coevolve.core.hashing import content_hash
    from coevolve.core.scratch import claim, scratch
    from coevolve.policies.pretrained import contents, resolve

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


def _policy(args: argparse.Namespace, environment: "Environment") -> tuple["Policy | Replicas", Callable[[], float]]:
    """The policy, and a function that closes it and returns its cost in USD."""
    if args.policy == "reference":
        from coevolve.policies.scripted_policy import ReferencePolicy

        return ReferencePolicy(environment, parallel=True), lambda: 0.0
    if args.policy == "endpoint":
        return _served(args)
    if not Path(args.policy).is_dir():
        raise CoevolveError(
            f"--policy {args.policy}: no such directory; expected a model directory, `endpoint`, or `reference`"
        )
    from coevolve.policies.loading import open_model
    from coevolve.policies.replicas import Replicas

    policy = open_model(Path(args.policy), args.threads, args.dtype, args.temperature, {})

    def close() -> float:
        if isinstance(policy, Replicas):
            policy.close()
        return 0.0

    return policy, close


def _served(args: argparse.Namespace) -> tuple["Policy", Callable[[], float]]:
    import tempfile

    from coevolve.core.yaml_files import validated
    from coevolve.endpoint.client import open_endpoint
    from coevolve.endpoint.config import EndpointSection
    from coevolve.policies.endpoint_policy import EndpointPolicy

    config = validated(
        EndpointSection,
        {
            "url": args.url,
            "model": args.model,
            "key": args.key,
            "concurrency": args.concurrency,
            "timeout": args.timeout,
            "retries": 6,
            "budget_requests": args.budget_requests,
            "budget_tokens": args.budget_tokens,
            "reply_tokens": args.reply_tokens,
            "temperature": args.temperature,
            "input_price": args.input_price,
            "output_price": args.output_price,
            "replay": None,
        },
        "endpoint",
    )
    log = args.log or Path(tempfile.mkdtemp(prefix="coevolve-")) / "requests.jsonl"
    endpoint = open_endpoint(config, log)

    def close() -> float:
        endpoint.close()
        print(f"{endpoint.spend}; requests and replies: {log}")
        return endpoint.spend.cost

    return EndpointPolicy(endpoint, args.temperature), close


def show(split: str, outcomes: Sequence["Outcome"], bad: set[str], config: "Evaluate", seed: int, samples: int) -> None:
    """Print success by category; ``bad`` are tasks with a known mistake."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from coevolve.core.outcomes import by_task, passes
    from coevolve.core.pass_at_k import depths
    from coevolve.core.statistics import bootstrap

    table = Table(title=split, box=box.SIMPLE_HEAD, title_justify="left")
    strict = any("strict" in one.checks for one in outcomes)
    several = [f"pass{sign}{k}" for sign in "@^" for k in depths(samples)]
    more = [*several, *(["strict"] if strict else []), *(["ceiling"] if bad else [])]
    for column in ("category", "tasks", "success", *more):
        table.add_column(column, justify="left" if column == "category" else "right")
    rows: list[list[float | None]] = []
    for name in _names(outcomes):
        ours = [one for one in outcomes if one.category == name]
        tasks = by_task(ours).values()
        successes = [_share([one.success for one in many]) for many in tasks]
        low, high = bootstrap(successes, config, seed)
        known = passes(ours)
        success = sum(successes) / len(successes)
        figures: list[float | None] = [success, *(known.get(one) for one in several)]
        figures += [_share([one.success and one.checks.get("strict", True) for one in ours])] if strict else []
        figures += [_share([one.task_id not in bad for one in ours])] if bad else []
        rows.append(figures)
        first = f"{success:.3f} ±{(high - low) / 2:.3f}"
        table.add_row(name, str(len(tasks)), first, *map(_figure, figures[1:]))
    if len(rows) > 1:
        columns = ([one for one in column if one is not None] for column in zip(*rows, strict=True))
        means = [sum(column) / len(column) if column else None for column in columns]
        table.add_section()
        table.add_row(
            "all",
            str(len(by_task(outcomes))),
            *(f"{_figure(one)}{'       ' if not n else ''}" for n, one in enumerate(means)),
        )
    Console().print(table)


def _figure(value: float | None) -> str:
    """A cell; a dash if the environment failed so often that no task has all episodes."""
    return "–" if value is None else f"{value:.3f}"


def costs(outcomes: Sequence["Outcome"], seconds: float, dollars: float) -> str:
    """The cost of each success, failures included: tokens of the agent, wall time, and USD if prices are known."""
    solved = sum(one.success for one in outcomes)
    if not solved:
        return f"no success in {sum(one.tokens for one in outcomes):,} tokens and {seconds:,.0f} s"
    money = f", ${dollars / solved:.4f}" if dollars else ""
    return f"each success took {sum(one.tokens for one in outcomes) / solved:,.0f} tokens, {seconds / solved:,.2f} s{money}"


def _names(outcomes: Sequence["Outcome"]) -> list[str]:
    return list(dict.fromkeys(one.category for one in outcomes))


def _scenarios(outcomes: Sequence["Outcome"], groups: Mapping[str, str]) -> float:
    """The share of scenarios in which every task succeeds: AppWorld's SGC."""
    least: dict[str, bool] = {}
    for one in outcomes:
        name = groups[one.task_id]
        least[name] = least.get(name, True) and one.success
    return _share(list(least.values()))


def _share(values: Sequence[Any]) -> float:
    return sum(map(bool, values)) / max(len(values), 1)
