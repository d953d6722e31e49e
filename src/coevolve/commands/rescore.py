"""``coevolve rescore``: score stored trajectories again with the installed environment."""

import argparse

from coevolve.commands.options import ENVIRONMENT, FILE, SWITCH
from coevolve.core.errors import CoevolveError
from coevolve.core.terminal import plain

HELP = """
Shows which scores change after you fix a checker or upgrade an environment. The command repeats the calls of each trajectory
and scores the episode again. If the environment now answers a call differently, the episode is not comparable and keeps its
score. The command does not repeat an episode that broke, or that timed out with a score of 0. It prints a count of each
result, with reasons.

Two results concern the file itself. A trajectory's task may be in none of the task files: --out omits the trajectory. A
record may be one that no rollout writes, for example a score outside [0, 1], a broken episode with a score above 0, a
trajectory without messages, or a call that no agent can make: --out sets its score to 0.

  coevolve rescore data/0/trajectories.parquet --environment miniworld      # uses the tasks.jsonl beside the file
  coevolve rescore old.parquet --environment bfcl --tasks tasks.jsonl --tasks more.jsonl --out new.parquet --fail
"""
SHOWN = 5  # examples to show of each kind


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("trajectories", **FILE, help="a Parquet file such as data/0/trajectories.parquet")
    add("--environment", required=True, **ENVIRONMENT)
    add("--tasks", action="append", **FILE, help="a file of tasks (default: tasks.jsonl beside the trajectories)")
    add("--out", **FILE, help="write the trajectories with the new scores")
    add("--changes", **FILE, help="write the result of each trajectory (JSONL)")
    add("--fail", **SWITCH, help="exit with 1 unless every stored score is confirmed")


def run(args: argparse.Namespace) -> int:
    from coevolve.audit.rescoring import SAME, counted, rescore, with_scores
    from coevolve.core.io import read_tasks, write_jsonl
    from coevolve.core.progress import bar
    from coevolve.core.trajectories import read_trajectories, write_trajectories
    from coevolve.environments.registry import make

    environment = make(args.environment)
    trajectories = read_trajectories(args.trajectories)
    files = args.tasks or [args.trajectories.with_name("tasks.jsonl")]
    tasks = {task.task_id: task for file in files for task in read_tasks(file, args.environment)}
    if trajectories and not any(one.task_id in tasks for one in trajectories):
        raise CoevolveError(
            f"{args.trajectories}: none of its tasks is in {', '.join(map(str, files))}; name the tasks' file with --tasks"
        )
    with bar(len(trajectories), "rescore", "trajectories") as progress:
        found = list(rescore(environment, tasks, trajectories, progress.update))
    if args.out:
        write_trajectories(args.out, with_scores(trajectories, found))
    if args.changes:
        write_jsonl(args.changes, found)
    unconfirmed = sum(not one.holds for one in found)
    print(f"{args.trajectories}: {environment.fingerprint} does not confirm {unconfirmed} of {len(found)} scores")
    for kind, count in counted(found).items():
        print(f"  {count:6d} {kind}")
        for one in [other for other in found if other.kind == kind != SAME][:SHOWN]:
            scores = "" if one.after is None else f"{one.before:.2f} before, {one.after:.2f} now: "
            print(plain(f"         {one.trajectory_id}  {scores}{one.why}"))
    return 1 if args.fail and unconfirmed else 0
