"""``coevolve import``: read episodes that another tool recorded."""

import argparse
from pathlib import Path

from coevolve.commands.options import FILE
from coevolve.core.numeric_options import share
from coevolve.core.terminal import plain
from coevolve.core.trajectories import stream_trajectories
from coevolve.core.untrusted import without_secrets
from coevolve.rollouts.foreign_trajectories import RolloutAccount, named_or_opening, trajectories
from coevolve.rollouts.rollout_formats import AUTO, FORMATS, lacking, listed, read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options

HELP = f"""
  coevolve import messages chats.jsonl --out trajectories.parquet  # episodes as chat messages
  coevolve import auto jobs/ --out trajectories.parquet            # rollouts of any format below, by content
  coevolve import auto jobs/ --out trajectories.parquet --mlflow EXPERIMENT    # and as traces of MLflow

messages: a line of chats.jsonl is an episode. It has `messages` in OpenAI's format (calls in `tool_calls`, or as text in
<tool_call>), and `score` or `reward`, a number from 0 to 1. --score sets the score of episodes without one. `task_id`,
`step` and `iteration` are optional. Episodes without a task_id that begin with the same messages are attempts at the same
task. `coevolve signals` reads the same files, and needs no import.

A call is refused if its answer says so: by `isError`, `is_error` or `status`, by an object with the one key `error`, by
an exception or its traceback, or by the words of MCP and of trainers ("error:", "Unknown tool:"). The command prints
how many calls that are, and what it could not read.

Rollouts of trainers keep the task id of their file. Without one, rollouts that begin alike are attempts at the same task.
The formats do not record everything:

{listed()}

With --mlflow, a rollout is a trace with the tags `score`, `task_id`, `step` and `signal`, in the store of MLFLOW_TRACKING_URI or
in mlruns/mlflow.db, which takes some tenths of a second per trace. A source that is imported again gets only the traces of its new
rollouts.

`coevolve grow` reads the same files and makes new tasks.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kind", choices=(AUTO, "messages", *FORMATS), help="the format of the data: see below")
    add("source", type=Path, metavar="SOURCE", help="a folder or a file")
    add("--out", required=True, **FILE, help="the file to write")
    add("--score", type=share, metavar="S", help="score of episodes that have none")
    add("--reward", metavar="NAME", help="the reward to take as the score, if there are several")
    add("--mlflow", metavar="EXPERIMENT", help="also write the rollouts as traces of this experiment")


def run(args: argparse.Namespace) -> int:
    name = "coevolve" if args.kind == "messages" else args.kind
    account, options = RolloutAccount(), Options(args.reward)
    rows = read_rollouts(rollout_files(args.source, name), options, name)
    found = trajectories(rows, named_or_opening, account, score=args.score)
    stream_trajectories(args.out, account.some(found, str(args.source), options.remarks))
    print(f"{args.out}: {account.kept} rollouts of {len(account.tasks)} tasks")
    for line in (*lacking(options), *account.lines(options.remarks)):
        print(f"  {line}")
    if args.mlflow is not None:
        from coevolve.tracking import imported

        address = imported.log(args.source, args.out, args.mlflow)
        print(plain(f"{without_secrets(address)}: {account.kept} traces in experiment {args.mlflow}"))
    return 0
