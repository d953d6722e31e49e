"""``coevolve export``: write a run's data for other tools."""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevolve.audit.checks import CHECKS
from coevolve.audit.subject import COUNT, Subject, findings, place, write
from coevolve.commands.options import DIR, FILE, SWITCH
from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_json, read_tasks, write_json, write_jsonl, write_text
from coevolve.core.numeric_options import whole
from coevolve.core.paths import Paths
from coevolve.core.scratch import once
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import read_trajectories
from coevolve.core.untrusted import markdown
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.environments.row_environment import RowEnvironment
from coevolve.lineage.ancestry import iterations, mixed
from coevolve.lineage.cards import episode_card, policy_card, task_card
from coevolve.lineage.finished_run import preferences, supervised
from coevolve.lineage.schemas import schemas
from coevolve.policies.config import PolicySection
from coevolve.rollout import Limits
from coevolve.stages.report.run_summary import SUMMARY, Summary, run_hash
from coevolve.stages.report.tables import champion_line
from coevolve.stages.schema import Params, load, plain, value
from coevolve.stages.train.reference_tokens import offered, replayed
from coevolve.trainers import rows_for_trainers
from coevolve.trainers.environment_package import package_name, write_package
from coevolve.trainers.harbor_tasks import harbor
from coevolve.trainers.replay import checked_tasks

HELP = """
  coevolve export sft --out sft                      # references of the last dataset, as chat messages
  coevolve export sft --successes --out rft          # successful episodes of the agent in training, as chat messages
  coevolve export sft --tasks accepted.jsonl --environment sql --out sft    # references of these tasks, without a run
  coevolve export pairs --iteration 1 --out pairs    # preference pairs of a run that learns by dpo or sft
  coevolve export tasks --out tasks                  # the last dataset
  coevolve export tasks --for verifiers --tasks accepted.jsonl --environment sql --out hard-sql   # for another trainer
  coevolve export tasks --for trl --rows train.jsonl --tasks grown/tasks.jsonl --environment train.py:MyEnv@grown/known.jsonl --out more
  coevolve export policy --out model                 # the run's champion: its success and its training data
  coevolve export policy --iteration 3 --out model   # policies/3
  coevolve export schemas --out schemas              # JSON schemas of all records and of params.yaml, without a run

Run the command in a project after `dvc repro`. DIR must not exist. A card, README.md, describes each dataset or model.

`--for` writes the tasks for another trainer, after the environment has replayed each reference. docs/your-trainer.md has the two
lines that train on them. `--for verifiers` writes a Python package with a card and the environment's audit. `--rows` names the
dataset that you train on with TRL: the tasks then get its columns. Without --tasks, the tasks are those of the last dataset.

`sft` and `pairs` write train.jsonl, which `datasets.load_dataset("json")` opens and TRL's SFTTrainer and DPOTrainer accept.
Messages have OpenAI's format, with calls as objects in `tool_calls`. A line has `messages` and `tools`, or for a pair
`prompt`, `chosen`, `rejected` and `tools`. `coevolve import` reads messages back.
"""

Exporter = Callable[[argparse.Namespace, Environment, list[Task], str], str]
RowWriter = Callable[[list[Task], Environment, str, Path], str]


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    kinds = ("sft", "pairs", "tasks", "policy", "schemas")
    add("kind", choices=kinds, help="the data to write: see below")
    add("--out", required=True, **DIR, help="a new folder")
    add("--iteration", type=whole, metavar="T", help="dataset or policy T (default: the last dataset, the champion)")
    add("--successes", **SWITCH, help="with sft: write the agent's successful episodes, not the references")
    add("--tasks", **FILE, help="with sft or --for: the tasks to write, such as accepted.jsonl")
    add("--for", dest="trainer", choices=sorted(TRAINERS), help="with tasks: the trainer that will read them")
    add("--rows", type=Path, metavar="DATASET", help="with --for trl: JSONL, Parquet or a folder of `datasets`")
    add("--environment", metavar="NAME", help="with --tasks: their environment (default: that of params.yaml)")


def run(args: argparse.Namespace) -> int:
    mistakes = {
        f"--out {args.out}: already exists; name a new folder, or remove it": args.out.exists(),
        "--successes: works only with sft": args.successes and args.kind != "sft",
        "--tasks: works only with sft and --for": args.tasks and not (args.kind == "sft" or args.trainer),
        "--for: works only with tasks": args.trainer and args.kind != "tasks",
        "--rows: works only with --for trl": args.rows and args.trainer != "trl",
        "--tasks: names all tasks; remove --successes and --iteration": args.tasks
        and (args.successes or args.iteration is not None),
        "--environment: works only with --tasks": args.environment and not args.tasks,
    }
    for mistake, made in mistakes.items():
        if made:
            raise CoevolveError(mistake)
    if args.kind == "schemas":
        for name, schema in schemas().items():
            write_json(args.out / f"{name}.schema.json", schema)
        written = ", ".join(schemas())
    elif args.kind == "policy":
        written = _policy(args.out, args.iteration, load(Path("params.yaml")))
    else:
        written = _dataset(args)
    print(f"{args.out}: {written}")
    return 0


def _dataset(args: argparse.Namespace) -> str:
    """Write tasks or episodes with their card."""
    name, policy = args.environment, PolicySection()
    if not name:
        params = load(Path("params.yaml"))
        name, policy = params.environment, params.policy
    t, run = 0, "none"
    if not args.tasks:
        last = iterations()[-1]
        earlier = last - (args.successes or args.kind == "pairs")  # no iteration has trained on the last dataset
        t, run = earlier if args.iteration is None else args.iteration, run_hash(last)
    environment, file = make(name), args.tasks or Paths.tasks(t)
    if args.trainer:
        return TRAINERS[args.trainer](args, environment, checked_tasks(environment, environment.name, file), run)
    tasks = read_tasks(file, name, least=1)
    audit, data, rows = place(environment), "train.jsonl", list[dict[str, Any]]()
    if args.kind == "tasks":
        data, written = "tasks.jsonl", f"{len(tasks)} tasks of dataset {t}"
        card = task_card(tasks, environment, run, audit)
    elif args.kind == "pairs":
        rows = list(preferences(t, offered(environment, tasks)))
        written = f"{len(rows)} pairs of iteration {t}"
        origin = f"Training of iteration {t} prefers `chosen` to `rejected`."
        card = episode_card("pairs", origin, rows, environment, run, audit)
    else:
        if args.successes:
            origin = f"An episode is a success of the agent itself, in training of iteration {t}."
            played = read_trajectories(Paths.trajectories(t))
            episodes = [one for one in played if one.counts and is_success(one.score)]
        else:
            source = markdown(file.name) if args.tasks else f"dataset {t}"
            origin = f"An episode replays the reference of a task of {source}."
            episodes = list(replayed(environment, tasks, Limits.of(policy)).values())
        rows = list(supervised(episodes, offered(environment, tasks)))
        if not rows:
            raise CoevolveError(f"{file}: no episode succeeds in {name}, so sft has nothing to write")
        written = f"{len(rows)} episodes of {len(tasks)} tasks"
        card = episode_card("episodes", origin, rows, environment, run, audit)
    write_jsonl(args.out / data, rows or tasks)
    write_text(args.out / "README.md", card)
    return f"{data}, {written}, and README.md"


def _verifiers(args: argparse.Namespace, environment: Environment, tasks: list[Task], run: str) -> str:
    """Write a package of ``tasks``, with an audit of the environment."""
    out, name = args.out, args.environment or environment.name
    module, known = package_name(out), place(environment)

    def fill(folder: Path) -> None:
        folder.mkdir(parents=True)
        if known.exists() and read_json(known).get("fingerprint") == environment.fingerprint:
            shutil.copy(known, folder / known.name)
        else:
            print(f"checking {name}; `coevolve env check {name}` does so once for all exports", flush=True)
            subject = Subject(environment, COUNT, name)
            write(environment, findings(subject, CHECKS), folder / known.name)
        card = task_card(tasks, environment, run, folder / known.name, f"{module}/tasks.jsonl")
        write_package(folder, out.name, name, tasks, card)

    once(out, fill)
    return f"{len(tasks)} tasks of {name} as the package {out.name}, audit.json and README.md"


def _trl(args: argparse.Namespace, environment: Environment, tasks: list[Task], run: str) -> str:
    """Write ``tasks`` in the columns of the dataset that TRL trains on."""
    if args.rows is None:
        raise CoevolveError("--for trl: needs --rows DATASET; without one, give the tasks to coevolve.trl_environment")
    known = environment.tasks("seed") if isinstance(environment, RowEnvironment) and environment.known else []
    return rows_for_trainers.append(tasks, environment, args.rows, args.out, known)


def _rows(write: RowWriter) -> Exporter:
    """Writes rows by ``write``, for trainers that know no later turns of a user."""

    def export(args: argparse.Namespace, environment: Environment, tasks: list[Task], run: str) -> str:
        short = [task for task in tasks if len(task.turns) == 1]
        if not short:
            raise CoevolveError(
                f"{args.trainer} knows no later turns of a user, and each task has several; use verifiers"
            )
        left = f"; {len(tasks) - len(short)} with several turns are left out" if len(short) < len(tasks) else ""
        written = write(short, environment, args.environment or environment.name, args.out)
        return f"{written}: {len(short)} tasks of {environment.name}{left}"

    return export


TRAINERS: dict[str, Exporter] = {
    "harbor": _rows(harbor),
    "rllm": _rows(rows_for_trainers.rllm),
    "trl": _trl,
    "verifiers": _verifiers,
    "verl": _rows(rows_for_trainers.verl),
}


def _edited(params: Params) -> str | None:
    """A line that names the first parameter which a stage of the run read with another value; None if there is none."""
    for file in sorted(Path("data/code").glob("*.json")):
        for key, noted in read_json(file)["params"].items():
            if value(params, key) != noted:
                return f"params.yaml: {key} has changed since the run; run `dvc repro`, or restore the file"
    return None


def _policy(out: Path, wanted: int | None, params: Params) -> str:
    if not SUMMARY.exists():
        raise CoevolveError(f"{SUMMARY}: no such file; run `dvc repro` first, which measures policies")
    summary = parse(Summary, read_json(SUMMARY), str(SUMMARY))
    t = summary.champion.policy if wanted is None else wanted
    if not 0 <= t <= summary.last:
        raise CoevolveError(f"--iteration {t}: there is no policies/{t}; expected 0 to {summary.last}")
    if reason := mixed() or _edited(params):
        raise CoevolveError(reason)
    card = policy_card(t, summary, plain(params))

    def copy(folder: Path) -> None:
        shutil.copytree(Paths.policy(t), folder)
        write_text(folder / "README.md", card)

    once(out, copy)
    return f"policies/{t} and README.md\n{champion_line(summary)}"
