"""``coevolve export``: write a run's data for other tools."""

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError

if TYPE_CHECKING:
    from coevolve.core.task import Task
    from coevolve.core.trajectories import Trajectory
    from coevolve.environments.environment import Environment
    from coevolve.stages.schema import Params

HELP = """
  coevolve export sft --out sft                      # references of the last dataset, as chat messages
  coevolve export sft --successes --out rft          # successful episodes of the agent in training, as chat messages
  coevolve export pairs --iteration 1 --out pairs    # preference pairs of a run that learns by dpo or sft
  coevolve export tasks --out tasks                  # the last dataset, with a card
  coevolve export policy --iteration 3 --out model   # policies/3, with a card: its success and its training data

Run the command in a project after `dvc repro`. DIR must not exist.

`sft` and `pairs` write train.jsonl, which `datasets.load_dataset("json")` opens and TRL's SFTTrainer and DPOTrainer accept.
Messages have OpenAI's format, with calls as objects in `tool_calls`. A line has `messages` and `tools`, or for a pair
`prompt`, `chosen`, `rejected` and `tools`. `coevolve import` reads tasks and messages back.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("kind", choices=("sft", "pairs", "tasks", "policy"), help="the data to write: see below")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    parser.add_argument(
        "--iteration", type=int, metavar="T", help="number of the dataset or policy (default: the last)"
    )
    parser.add_argument(
        "--successes", action="store_true", help="with sft: write the agent's successful episodes, not the references"
    )


def run(args: argparse.Namespace) -> int:
    from coevolve.stages.schema import load

    if args.out.exists():
        raise CoevolveError(f"--out {args.out}: already exists; name a new folder, or remove it")
    if args.successes and args.kind != "sft":
        raise CoevolveError("--successes: works only with sft")
    params = load(Path("params.yaml"))
    if args.kind == "policy":
        said = _policy(args.out, args.iteration, params)
    elif args.kind == "tasks":
        said = _tasks(args.out, args.iteration, params)
    else:
        said = _messages(args, params)
    print(f"{args.out}: {said}")
    return 0


def _last() -> int:
    from coevolve.readers.ancestry import iterations

    return iterations()[-1]


def _dataset(t: int, params: "Params") -> "list[Task]":
    from coevolve.core.io import read_tasks
    from coevolve.core.paths import Paths

    return read_tasks(Paths.tasks(t), params.environment, least=1)


def _messages(args: argparse.Namespace, params: "Params") -> str:
    from coevolve.core.io import write_jsonl
    from coevolve.environments.registry import make
    from coevolve.readers.run_export import preferences, supervised
    from coevolve.stages.train.reference_tokens import offered

    environment = make(params.environment)
    # no iteration has trained on the last dataset, so the newest episodes and pairs are those of the iteration before
    t = _last() - (args.kind == "pairs" or args.successes) if args.iteration is None else args.iteration
    tasks = _dataset(t, params)
    tools = offered(environment, tasks)
    rows: list[Mapping[str, Any]]
    if args.kind == "pairs":
        rows = list(preferences(t, tools))
    else:
        rows = list(supervised(_episodes(t, args.successes, environment, tasks, params), tools))
        if not rows:
            raise CoevolveError(
                f"iteration {t}: no episode succeeds, so sft has nothing to write; name another --iteration"
            )
    write_jsonl(args.out / "train.jsonl", map(dict, rows))
    return f"train.jsonl, {len(rows)} {'pairs' if args.kind == 'pairs' else 'episodes'} of iteration {t}"


def _episodes(
    t: int, successes: bool, environment: "Environment", tasks: "list[Task]", params: "Params"
) -> "list[Trajectory]":
    from coevolve.core.paths import Paths
    from coevolve.core.success import is_success
    from coevolve.core.trajectories import read_trajectories
    from coevolve.rollout import Limits
    from coevolve.stages.train.reference_tokens import replayed

    if not successes:
        return list(replayed(environment, tasks, Limits.of(params.policy)).values())
    return [one for one in read_trajectories(Paths.trajectories(t)) if one.counts and is_success(one.score)]


def _tasks(out: Path, wanted: int | None, params: "Params") -> str:
    from coevolve.core.io import write_jsonl, write_text
    from coevolve.environments.registry import make
    from coevolve.readers.cards import task_card
    from coevolve.stages.report.run_summary import run_hash

    t = _last() if wanted is None else wanted
    rows, environment = _dataset(t, params), make(params.environment)
    audit = Path("scratch/audits") / environment.name / "audit.json"
    write_jsonl(out / "tasks.jsonl", rows)
    write_text(out / "README.md", task_card(rows, environment, run_hash(t), audit))
    return f"tasks.jsonl, {len(rows)} tasks of dataset {t}, and README.md"


def _policy(out: Path, wanted: int | None, params: "Params") -> str:
    from coevolve.core.io import parse, read_json, write_text
    from coevolve.core.paths import Paths
    from coevolve.core.scratch import once
    from coevolve.readers.cards import policy_card
    from coevolve.stages.report.run_summary import SUMMARY, Summary
    from coevolve.stages.schema import plain

    if not SUMMARY.exists():
        raise CoevolveError(f"{SUMMARY}: no such file; run `dvc repro` first, which measures policies")
    summary = parse(Summary, read_json(SUMMARY), str(SUMMARY))
    t = summary.last if wanted is None else wanted
    if not 0 <= t <= summary.last:
        raise CoevolveError(f"--iteration {t}: there is no policies/{t}; expected 0 to {summary.last}")
    card = policy_card(t, summary, plain(params))

    def copy(folder: Path) -> None:
        shutil.copytree(Paths.policy(t), folder)
        write_text(folder / "README.md", card)

    once(out, copy)
    return f"policies/{t} and README.md"
