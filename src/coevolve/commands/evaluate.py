"""``coevolve evaluate``: a policy on an environment's panels, as a table by category."""

import argparse
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError
from coevolve.core.terminal import plain

if TYPE_CHECKING:
    from coevolve.core.outcomes import Outcome
    from coevolve.core.task import Task
    from coevolve.environments.environment import Environment
    from coevolve.policies.policy import Policy
    from coevolve.policies.replicas import Replicas
    from coevolve.stages.evaluate.config import Evaluate

HELP = """
POLICY is a transformers model directory with a chat template, such as policies/base; `endpoint`, a model that an
OpenAI-compatible server has, by its function calling; or `reference`, which replays each task's reference: what a perfect
agent would score.

`strict` is the share that also keeps the environment's stricter rules, where it has such a check; `ceiling` is what can
be reached where items are in quarantine. An environment whose tasks come in scenarios (AppWorld) gets their share too:
the table's success is its TGC, this its SGC. `all` weighs every category the same, as leaderboards do.

With `--samples` each task is played several times: `pass@k` is the chance that at least one of k episodes succeeds, `pass^k` that all
of them do, both estimated without bias from the samples; intervals are over tasks.

  coevolve evaluate --environment bfcl --policy policies/base --split test
  coevolve evaluate --environment miniworld --policy policies/3 --samples 8 --temperature 1
  coevolve evaluate --environment bfcl --policy endpoint --url http://127.0.0.1:8000/v1 --model Qwen/Qwen3-4B

What a model directory has played is kept until all of it has: interrupted, the same command plays the rest.

A served model costs money: every reply is kept in the log, and the same command run again pays for the rest alone. Use
another log (or none: it is new then) when other weights are served under the same name.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("--environment", required=True, metavar="NAME")
    parser.add_argument("--policy", required=True, metavar="POLICY")
    parser.add_argument("--split", action="append", metavar="NAME", help="a panel, or seed (every panel)")
    parser.add_argument("--tasks", type=int, default=10**9, metavar="N", help="the first N of each split (all)")
    parser.add_argument(
        "--samples", type=int, default=1, metavar="K", help="episodes of each task, for pass@k and pass^k (1)"
    )
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (0)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-turns", type=int, default=100, help="replies in an episode (100)")
    parser.add_argument("--episode-tokens", type=int, default=32768, help="tokens in an episode (32768)")
    parser.add_argument("--reply-tokens", type=int, default=1024, help="tokens in a reply (1024)")
    parser.add_argument("--max-seconds", type=float, default=900.0, help="guard against calls that never end (900)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the weights (float32)")
    served = parser.add_argument_group("a served model (--policy endpoint)")
    served.add_argument("--url", default="http://127.0.0.1:8000/v1", help="(http://127.0.0.1:8000/v1)")
    served.add_argument("--model", default="", help="its name, as the server has it")
    served.add_argument("--key", default="OPENAI_API_KEY", metavar="VARIABLE", help="environment variable with the key")
    served.add_argument("--concurrency", type=int, default=16, help="requests on their way at once (16)")
    served.add_argument("--timeout", type=float, default=120.0, help="seconds a reply may take (120)")
    served.add_argument("--budget-requests", type=int, default=10**9, metavar="N", help="a hard stop (none)")
    served.add_argument(
        "--budget-tokens", type=int, default=10**12, metavar="TOKENS", help="a hard stop in tokens (none)"
    )
    served.add_argument("--input-price", type=float, default=0.0, metavar="USD", help="of a million prompt tokens (0)")
    served.add_argument(
        "--output-price", type=float, default=0.0, metavar="USD", help="of a million tokens of replies (0)"
    )
    served.add_argument("--log", type=Path, metavar="FILE", help="requests and replies; a file that is there is used")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (1)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the outcome of every task (JSONL)")


def run(args: argparse.Namespace) -> int:
    from coevolve.core.io import write_jsonl
    from coevolve.core.trajectories import StopReason
    from coevolve.environments.environment import quarantined
    from coevolve.environments.registry import make
    from coevolve.rollout import Limits
    from coevolve.stages.evaluate.config import Evaluate
    from coevolve.stages.evaluate.evaluation import evaluate

    if args.samples < 1:
        raise CoevolveError(f"--samples {args.samples}: expected 1 or more")
    if args.samples > 1 and args.temperature == 0.0:
        raise CoevolveError(
            "--samples: greedy episodes of a task are all the same; set --temperature as well, to 1 say"
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
    began = time.monotonic()
    with _kept(args, environment, splits) as kept:
        policy, close = _policy(args, environment)
        try:
            outcomes = evaluate(policy, environment, splits, limits, config, args.seed, kept)
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
        _print(split, ours, quarantined(environment, tasks), config, args.seed, args.samples)
        groups = {task.task_id: environment.scenario(task) for task in tasks}
        if len(set(groups.values())) < len(groups):
            print(f"scenarios of which every task succeeds: {_scenarios(ours, groups):.3f}")
    print(costs(outcomes, seconds, dollars))
    if len(outcomes) < played:
        print(f"{played - len(outcomes)} episodes are left out: the environment failed in them")
    if late := sum(outcome.stop_reason == StopReason.TIMEOUT for outcome in outcomes):
        print(f"{late} episodes ended as {StopReason.TIMEOUT}: a call did not end within --max-seconds")
    if failures := getattr(policy, "failures", []):
        print(
            f"{len(failures)} replies never came, and count as failures of the policy; the first: {plain(str(failures[0]))}"
        )
    if left := getattr(policy, "exhausted", 0):
        print(f"{left} episodes ended because the budget did: these figures are too low")
    return 0


@contextmanager
def _kept(
    args: argparse.Namespace, environment: "Environment", splits: Mapping[str, Sequence["Task"]]
) -> Iterator[Path | None]:
    """Where episodes of a model directory are kept until all have been played; a served model's requests have a log."""
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
    """The policy, and what to call when it is done, which tells what it cost in USD."""
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


def _print(
    split: str, outcomes: Sequence["Outcome"], bad: set[str], config: "Evaluate", seed: int, samples: int
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from coevolve.core.outcomes import by_task, interval, passes
    from coevolve.core.pass_at_k import depths

    table = Table(title=split, box=box.SIMPLE_HEAD, title_justify="left")
    strict = any("strict" in one.checks for one in outcomes)
    several = [f"pass{sign}{k}" for sign in "@^" for k in depths(samples)]
    more = [*several, *(["strict"] if strict else []), *(["ceiling"] if bad else [])]
    for column in ("category", "tasks", "success", *more):
        table.add_column(column, justify="left" if column == "category" else "right")
    rows: list[list[float]] = []
    for name in _names(outcomes):
        ours = [one for one in outcomes if one.category == name]
        tasks = by_task(ours).values()
        successes = [_share([one.success for one in many]) for many in tasks]
        low, high = interval(successes, config, seed)
        known = passes(ours)
        figures = [sum(successes) / len(successes), *(known.get(one, 0.0) for one in several)]
        figures += [_share([one.success and one.checks.get("strict", True) for one in ours])] if strict else []
        figures += [_share([one.task_id not in bad for one in ours])] if bad else []
        rows.append(figures)
        first = f"{figures[0]:.3f} ±{(high - low) / 2:.3f}"
        table.add_row(name, str(len(tasks)), first, *(f"{one:.3f}" for one in figures[1:]))
    if len(rows) > 1:
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        table.add_section()
        table.add_row(
            "all",
            str(len(by_task(outcomes))),
            *(f"{one:.3f}{'       ' if not n else ''}" for n, one in enumerate(means)),
        )
    Console().print(table)


def costs(outcomes: Sequence["Outcome"], seconds: float, dollars: float) -> str:
    """What each success took, failures included: tokens of the agent, wall time, and money where there are prices."""
    solved = sum(one.success for one in outcomes)
    if not solved:
        return f"no success, for {sum(one.tokens for one in outcomes):,} tokens and {seconds:,.0f} s"
    money = f", ${dollars / solved:.4f}" if dollars else ""
    return f"each success took {sum(one.tokens for one in outcomes) / solved:,.0f} tokens, {seconds / solved:,.2f} s{money}"


def _names(outcomes: Sequence["Outcome"]) -> list[str]:
    return list(dict.fromkeys(one.category for one in outcomes))


def _scenarios(outcomes: Sequence["Outcome"], groups: Mapping[str, str]) -> float:
    """The mean over scenarios of the minimum of their tasks, as AppWorld's SGC."""
    least: dict[str, bool] = {}
    for one in outcomes:
        name = groups[one.task_id]
        least[name] = least.get(name, True) and one.success
    return _share(list(least.values()))


def _share(values: Sequence[Any]) -> float:
    return sum(map(bool, values)) / max(len(values), 1)
