"""``coevolve export``: write a run's data for other tools."""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.commands.options import DIR, FILE, SWITCH
from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import whole

if TYPE_CHECKING:
    from coevolve.environments.environment import Environment
    from coevolve.policies.config import PolicySection
    from coevolve.stages.schema import Params

HELP = """
  coevolve export sft --out sft                      # references of the last dataset, as chat messages
  coevolve export sft --successes --out rft          # successful episodes of the agent in training, as chat messages
  coevolve export sft --tasks accepted.jsonl --environment sql --out sft    # references of these tasks, without a run
  coevolve export pairs --iteration 1 --out pairs    # preference pairs of a run that learns by dpo or sft
  coevolve export tasks --out tasks                  # the last dataset
  coevolve export environment --tasks accepted.jsonl --environment sql --out hard-sql   # a package for verifiers
  coevolve export policy --iteration 3 --out model   # policies/3: its success and its training data
  coevolve export schemas --out schemas              # JSON schemas of all records and of params.yaml, without a run

Run the command in a project after `dvc repro`. DIR must not exist. A card, README.md, describes each dataset or model.

`environment` writes the tasks, a card, the environment's audit, and a Python package that the library `verifiers` loads by
the name of DIR. The environment replays each reference first. Without --tasks, the tasks are those of the last dataset.

`sft` and `pairs` write train.jsonl, which `datasets.load_dataset("json")` opens and TRL's SFTTrainer and DPOTrainer accept.
Messages have OpenAI's format, with calls as objects in `tool_calls`. A line has `messages` and `tools`, or for a pair
`prompt`, `chosen`, `rejected` and `tools`. `coevolve import` reads messages back.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    kinds = ("sft", "pairs", "tasks", "environment", "policy", "schemas")
    add("kind", choices=kinds, help="the data to write: see below")
    add("--out", required=True, **DIR, help="a new folder")
    add("--iteration", type=whole, metavar="T", help="number of the dataset or policy (default: the last)")
    add("--successes", **SWITCH, help="with sft: write the agent's successful episodes, not the references")
    add("--tasks", **FILE, help="with sft or environment: the tasks to write, such as accepted.jsonl")
    add("--environment", metavar="NAME", help="with --tasks: their environment (default: that of params.yaml)")


def run(args: argparse.Namespace) -> int:
    from coevolve.policies.config import PolicySection
    from coevolve.stages.schema import load

    if args.out.exists():
        raise CoevolveError(f"--out {args.out}: already exists; name a new folder, or remove it")
    if args.successes and args.kind != "sft":
        raise CoevolveError("--successes: works only with sft")
    if args.tasks and args.kind not in ("sft", "environment"):
        raise CoevolveError("--tasks: works only with sft and environment")
    if args.tasks and (args.successes or args.iteration is not None):
        raise CoevolveError("--tasks: names all tasks; remove --successes and --iteration")
    if args.environment and not args.tasks:
        raise CoevolveError("--environment: works only with --tasks")
    if args.kind == "schemas":
        written = _schemas(args.out)
    elif args.kind == "policy":
        written = _policy(args.out, args.iteration, load(Path("params.yaml")))
    else:
        name, policy = args.environment, PolicySection()
        if not name:
            params = load(Path("params.yaml"))
            name, policy = params.environment, params.policy
        if args.kind == "environment":
            written = _environment(args, name)
        elif args.kind == "sft":
            written = _episodes(args, name, policy)
        else:
            written = (_pairs if args.kind == "pairs" else _tasks)(args, name)
    print(f"{args.out}: {written}")
    return 0


def _schemas(out: Path) -> str:
    from coevolve.core.io import write_json
    from coevolve.lineage.schemas import schemas

    for name, schema in schemas().items():
        write_json(out / f"{name}.schema.json", schema)
    return ", ".join(schemas())


def _last() -> int:
    from coevolve.lineage.ancestry import iterations

    return iterations()[-1]


def _run() -> str:
    from coevolve.stages.report.run_summary import run_hash

    return run_hash(_last())


def _iteration(args: argparse.Namespace, back: int = 0) -> int:
    """--iteration, or the last one with data, less ``back``."""
    iteration: int = _last() - back if args.iteration is None else args.iteration
    return iteration


def _episodes(args: argparse.Namespace, name: str, policy: "PolicySection") -> str:
    """Chat messages of references, played in the environment ``name``, or of the agent's successes in training."""
    from coevolve.core.io import read_tasks
    from coevolve.core.paths import Paths
    from coevolve.core.success import is_success
    from coevolve.core.trajectories import read_trajectories
    from coevolve.core.untrusted import markdown
    from coevolve.environments.registry import make
    from coevolve.lineage.run_export import supervised
    from coevolve.rollout import Limits
    from coevolve.stages.train.reference_tokens import offered, replayed

    environment = make(name)
    t = 0 if args.tasks else _iteration(args, back=args.successes)  # no iteration has trained on the last dataset
    file = args.tasks or Paths.tasks(t)
    tasks = read_tasks(file, name, least=1)
    if args.successes:
        origin = f"An episode is a success of the agent itself, in training of iteration {t}."
        played = read_trajectories(Paths.trajectories(t))
        episodes = [episode for episode in played if episode.counts and is_success(episode.score)]
    else:
        origin = (
            f"An episode replays the reference of a task of {markdown(file.name) if args.tasks else f'dataset {t}'}."
        )
        episodes = list(replayed(environment, tasks, Limits.of(policy)).values())
    rows = list(supervised(episodes, offered(environment, tasks)))
    if not rows:
        raise CoevolveError(f"{file}: no episode succeeds in {name}, so sft has nothing to write")
    _write(args.out, "episodes", origin, rows, environment, "none" if args.tasks else _run())
    return f"train.jsonl, {len(rows)} episodes of {len(tasks)} tasks, and README.md"


def _pairs(args: argparse.Namespace, name: str) -> str:
    from coevolve.core.io import read_tasks
    from coevolve.core.paths import Paths
    from coevolve.environments.registry import make
    from coevolve.lineage.run_export import preferences
    from coevolve.stages.train.reference_tokens import offered

    environment, t = make(name), _iteration(args, back=1)
    rows = list(preferences(t, offered(environment, read_tasks(Paths.tasks(t), name, least=1))))
    origin = f"Training of iteration {t} prefers `chosen` to `rejected`."
    _write(args.out, "pairs", origin, rows, environment, _run())
    return f"train.jsonl, {len(rows)} pairs of iteration {t}, and README.md"


def _write(
    out: Path, unit: str, origin: str, rows: Sequence[Mapping[str, Any]], environment: "Environment", run: str
) -> None:
    from coevolve.audit.finding import place
    from coevolve.core.io import write_jsonl, write_text
    from coevolve.lineage.cards import episode_card

    card = episode_card(unit, origin, rows, environment, run, place(environment))
    write_jsonl(out / "train.jsonl", map(dict, rows))
    write_text(out / "README.md", card)


def _tasks(args: argparse.Namespace, name: str) -> str:
    from coevolve.audit.finding import place
    from coevolve.core.io import read_tasks, write_jsonl, write_text
    from coevolve.core.paths import Paths
    from coevolve.environments.registry import make
    from coevolve.lineage.cards import task_card

    t, environment = _iteration(args), make(name)
    rows = read_tasks(Paths.tasks(t), name, least=1)
    card = task_card(rows, environment, _run(), place(environment))
    write_jsonl(args.out / "tasks.jsonl", rows)
    write_text(args.out / "README.md", card)
    return f"tasks.jsonl, {len(rows)} tasks of dataset {t}, and README.md"


def _environment(args: argparse.Namespace, name: str) -> str:
    """Write a package of tasks that the environment ``name`` accepts, with an audit of the environment."""
    from coevolve.audit.checks import CHECKS
    from coevolve.audit.finding import COUNT, finding, place, write
    from coevolve.audit.subject import Subject
    from coevolve.core.io import read_json
    from coevolve.core.paths import Paths
    from coevolve.core.scratch import once
    from coevolve.environments.environment_package import package_name, write_package
    from coevolve.environments.registry import make
    from coevolve.environments.replay import checked_tasks
    from coevolve.lineage.cards import task_card

    module, environment = package_name(args.out), make(name)
    tasks = checked_tasks(environment, name, args.tasks or Paths.tasks(_iteration(args)))
    known = place(environment)

    def fill(folder: Path) -> None:
        folder.mkdir(parents=True)
        if known.exists() and read_json(known).get("fingerprint") == environment.fingerprint:
            shutil.copy(known, folder / known.name)
        else:
            print(f"checking {name}; `coevolve env check {name}` does so once for all exports", flush=True)
            subject = Subject(environment, COUNT, name)
            write(environment, [finding(subject, key) for key in CHECKS], folder / known.name)
        run = "none" if args.tasks else _run()
        card = task_card(tasks, environment, run, folder / known.name, f"{module}/tasks.jsonl")
        write_package(folder, args.out.name, name, tasks, card)

    once(args.out, fill)
    return f"{len(tasks)} tasks of {name} as the package {args.out.name}, audit.json and README.md"


def _edited(params: "Params") -> str | None:
    """A line that names the first parameter which a stage of the run read with another value; None if there is none."""
    from coevolve.core.io import read_json
    from coevolve.stages.schema import value

    for file in sorted(Path("data/code").glob("*.json")):
        for key, noted in read_json(file)["params"].items():
            if value(params, key) != noted:
                return f"params.yaml: {key} has changed since the run; run `dvc repro`, or restore the file"
    return None


def _policy(out: Path, wanted: int | None, params: "Params") -> str:
    from coevolve.core.io import parse, read_json, write_text
    from coevolve.core.paths import Paths
    from coevolve.core.scratch import once
    from coevolve.lineage.ancestry import mixed
    from coevolve.lineage.cards import policy_card
    from coevolve.stages.report.run_summary import SUMMARY, Summary
    from coevolve.stages.schema import plain

    if not SUMMARY.exists():
        raise CoevolveError(f"{SUMMARY}: no such file; run `dvc repro` first, which measures policies")
    summary = parse(Summary, read_json(SUMMARY), str(SUMMARY))
    t = summary.last if wanted is None else wanted
    if not 0 <= t <= summary.last:
        raise CoevolveError(f"--iteration {t}: there is no policies/{t}; expected 0 to {summary.last}")
    if reason := mixed() or _edited(params):
        raise CoevolveError(reason)
    card = policy_card(t, summary, plain(params))

    def copy(folder: Path) -> None:
        shutil.copytree(Paths.policy(t), folder)
        write_text(folder / "README.md", card)

    once(out, copy)
    return f"policies/{t} and README.md"
