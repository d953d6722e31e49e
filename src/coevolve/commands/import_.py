"""``coevolve import``: read exported tasks, or episodes that another tool recorded."""

import argparse
from pathlib import Path

from coevolve.commands.options import FILE
from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import share
from coevolve.rollouts.rollout_formats import FORMATS, listed

HELP = f"""
  coevolve import tasks DIR --out tasks.jsonl                      # a folder that `coevolve export tasks` wrote
  coevolve import messages chats.jsonl --out trajectories.parquet  # episodes as chat messages
  coevolve import trl completions/ --out trajectories.parquet      # rollouts of TRL; also verl, verifiers (and prime-rl)

tasks: the command checks that each id is the hash of the task's content. Then `coevolve verify --candidates tasks.jsonl`
checks the tasks in an environment.

messages: a line of chats.jsonl is an episode. It has `messages` in OpenAI's format (calls in `tool_calls`, or as text in
<tool_call>), and `score` or `reward`, a number from 0 to 1. --score sets the score of episodes without one. `task_id`,
`step` and `iteration` are optional. Episodes without a task_id that begin with the same messages are attempts at the same
task. A call counts as accepted if its answer does not begin with "error". Then find that agent's weaknesses:

  coevolve signals trajectories.parquet --out signals.jsonl

Rollouts of trainers keep the task id of their file. Without one, rollouts that begin alike are attempts at the same task.
The formats do not record everything:

{listed()}

`coevolve grow` reads the same files and makes new tasks.
"""
TRAINERS = tuple(name for name in FORMATS if name != "coevolve")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kind", choices=("tasks", "messages", *TRAINERS), help="the data to read: see below")
    add("source", type=Path, metavar="SOURCE", help="a folder or a file")
    add("--out", required=True, **FILE, help="the file to write")
    add("--score", type=share, metavar="S", help="with messages: score of episodes that have none")
    reward = "with rollouts: the reward to take as the score, if there are several"
    add("--reward", metavar="NAME", help=reward)


def run(args: argparse.Namespace) -> int:
    if args.score is not None and args.kind != "messages":
        raise CoevolveError("--score: works only with messages")
    if args.reward is not None and args.kind not in TRAINERS:
        raise CoevolveError(f"--reward: works only with {', '.join(TRAINERS)}")
    if args.kind in TRAINERS:
        return _rollouts(args)
    print(f"{args.out}: {_tasks(args) if args.kind == 'tasks' else _messages(args)}")
    return 0


def _rollouts(args: argparse.Namespace) -> int:
    from coevolve.core.trajectories import stream_trajectories
    from coevolve.rollouts.foreign_trajectories import RolloutAccount, named_or_opening, trajectories
    from coevolve.rollouts.rollout_formats import read_rollouts, rollout_files
    from coevolve.rollouts.rollout_row import Options

    rows, files = rollout_files(args.source, args.kind)
    account, options = RolloutAccount(), Options(args.reward)
    found = trajectories(read_rollouts(rows, files, options), named_or_opening, account)
    stream_trajectories(args.out, account.some(found, str(args.source), options.remarks))
    print(f"{args.out}: {account.kept} rollouts of {len(account.tasks)} tasks")
    for line in (f"{rows.writer}: {rows.lacks}", *account.lines(options.remarks)):
        print(f"  {line}")
    return 0


def _tasks(args: argparse.Namespace) -> str:
    from coevolve.core.io import read_tasks, strict, write_jsonl
    from coevolve.core.task import task_id_of

    file = args.source / "tasks.jsonl" if args.source.is_dir() else args.source
    tasks = read_tasks(file, reader=strict)
    for number, one in enumerate(tasks, 1):
        if one.task_id != task_id_of(one.environment, one.world, one.turns, one.reference):
            raise CoevolveError(
                f"{file}:{number}: task_id {one.task_id} is not the hash of the content; export the task again, unedited"
            )
    write_jsonl(args.out, tasks)
    return f"{len(tasks)} tasks of {', '.join(sorted({one.environment for one in tasks}))}"


def _messages(args: argparse.Namespace) -> str:
    from coevolve.core.io import read_jsonl_objects, strict
    from coevolve.core.trajectories import write_trajectories
    from coevolve.rollouts.chats import episode

    rows = [
        episode(value, f"{args.source}:{number}", row, args.score)
        for row, (number, value) in enumerate(read_jsonl_objects(args.source, ["messages"], strict))
    ]
    if not rows:
        raise CoevolveError(f"{args.source}: no episodes; expected one per line")
    write_trajectories(args.out, rows)
    return f"{len(rows)} episodes of {len({one.task_id for one in rows})} tasks"
