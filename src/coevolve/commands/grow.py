"""``coevolve grow``: rollouts of any trainer in, verified tasks out."""

import argparse
from typing import Any

from coevolve.commands.options import DIR, ENVIRONMENT, FILE, SETTINGS, settings
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks
from coevolve.core.numeric_options import count
from coevolve.core.paths import Paths
from coevolve.core.terminal import plain
from coevolve.environments.registry import make
from coevolve.environments.row_environment import RowEnvironment
from coevolve.rollouts.grow_loop import Grown, grow
from coevolve.rollouts.rollout_formats import listed
from coevolve.stages.verify.candidates import by_name
from coevolve.trainers.rows_for_trainers import append

HELP = f"""
  coevolve grow outputs/completions --environment miniworld --count 20 --out grown
  coevolve grow outputs/completions --environment train.py:MyEnv --known train.jsonl --out grown

train.py:MyEnv may be the class that TRL plays (environment_factory=MyEnv), and train.jsonl its data set. Then the references
come from your rollouts with the full reward.

ROLLOUTS are files, folders or globs that your trainer wrote. The formats, and what each of them does not record:

{listed()}

DIR becomes a project: the loop with the learner `import` and one iteration. DIR/tasks.jsonl holds the new tasks, and
DIR/report/index.html shows where each came from. After an interruption, the same command continues. -S sets any key of
`coevolve params`, such as:

  -S verify.policy=http://127.0.0.1:8000/v1   your agent: keeps the tasks that it solves about half the time
  -S explore.explorer=endpoint -S endpoint.model=NAME   an LLM explores
  -S signals.kinds='[boundary, unsolved]'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("rollouts", nargs="+", metavar="ROLLOUTS", help="the files of your trainer: see below")
    add("--environment", required=True, **ENVIRONMENT)
    add("--out", required=True, **DIR, help="the folder to write")
    add("--count", type=count, default=200, metavar="N", help="most tasks to write")
    add(
        "--known",
        **FILE,
        help="tasks of the rollouts, or the data set of your class (default: the environment's training tasks)",
    )
    add("--panel", action="append", default=[], **FILE, help="further evaluation tasks, to refuse overlaps")
    add("--reward", metavar="NAME", help="the reward to take as the score, if there are several")
    add("--policy", metavar="POLICY", help="your agent, a model directory or URL: -S verify.policy=POLICY")
    add("-S", **SETTINGS, help="set a parameter")


def run(args: argparse.Namespace) -> int:
    given = {"import.reward": args.reward, "verify.policy": args.policy}
    params: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    params |= settings(args.settings)
    grown = grow(
        args.rollouts,
        args.environment,
        known=args.known,
        panels=by_name(args.panel),
        out=args.out,
        count=args.count,
        params=params,
        say=_say,
    )
    if grown.tasks and args.known:
        _write_rows(grown, args)
    page = args.out / Paths.report / "index.html"
    _say(f"read {page}; `cd {args.out} && coevolve lineage TASK_ID` leads to your rollouts")
    return 0


def _say(line: str) -> None:
    print(plain(line), flush=True)


def _write_rows(grown: Grown, args: argparse.Namespace) -> None:
    """Write the new tasks in the columns of the data set of a class that a trainer plays."""
    world, rows = make(args.environment), args.out / "rows"
    if not isinstance(world, RowEnvironment):
        return
    try:
        known = read_tasks(grown.folder / "known.jsonl")
        _say(f"{rows}: {append(grown.tasks, world, args.known, rows, known)}")
    except CoevolveError as error:
        _say(f"no rows: {error}")
