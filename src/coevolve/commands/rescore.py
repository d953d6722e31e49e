"""``coevolve rescore``: stored trajectories, scored by today's environment."""

import argparse
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.terminal import plain

HELP = """
After you fix a checker or upgrade an environment: which scores change? The command makes the calls of each trajectory again, as
they were, and scores them. If the world answers differently now, the episode is another one, and its score stays. An episode that
broke, or timed out with a score of 0, is not played again. The command counts all of them, with reasons.

Two findings are about the file: a task that is in none of the files (--out leaves the trajectory out), and a record that no
rollout writes, such as a broken episode with a score above 0, a score outside [0, 1], no messages, or a call that no agent can
make (--out sets its score to 0).

  coevolve rescore data/0/trajectories.parquet --environment miniworld      # tasks: the tasks.jsonl beside it
  coevolve rescore old.parquet --environment bfcl --tasks tasks.jsonl --tasks more.jsonl --out new.parquet --fail
"""
SHOWN = 5  # examples of each kind


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = HELP
    parser.add_argument("trajectories", type=Path, metavar="FILE", help="Parquet, as data/t/trajectories.parquet")
    parser.add_argument("--environment", required=True, metavar="NAME")
    parser.add_argument(
        "--tasks", type=Path, action="append", metavar="FILE", help="(tasks.jsonl beside the trajectories)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the trajectories with today's scores")
    parser.add_argument("--changes", type=Path, metavar="FILE", help="write the result of each trajectory (JSONL)")
    parser.add_argument("--fail", action="store_true", help="exit with 1 unless every score holds today")


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
            f"{args.trajectories}: none of its tasks is in {', '.join(map(str, files))}; name their file with --tasks"
        )
    with bar(len(trajectories), "rescore", "trajectories") as progress:
        found = list(rescore(environment, tasks, trajectories, progress.update))
    if args.out:
        write_trajectories(args.out, with_scores(trajectories, found))
    if args.changes:
        write_jsonl(args.changes, found)
    unconfirmed = sum(not one.holds for one in found)
    print(f"{args.trajectories}: {unconfirmed} of {len(found)} scores do not hold in {environment.fingerprint}")
    for kind, count in counted(found).items():
        print(f"  {count:6d} {kind}")
        for one in [other for other in found if other.kind == kind != SAME][:SHOWN]:
            scores = "" if one.after is None else f"{one.before:.2f} then, {one.after:.2f} now: "
            print(plain(f"         {one.trajectory_id}  {scores}{one.why}"))
    return 1 if args.fail and unconfirmed else 0
