"""``coevolve rescore``: stored trajectories, scored by today's environment."""

import argparse
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.terminal import plain

HELP = """
After a checker was mended, or an environment was upgraded: which scores would be others today? The calls of each trajectory are made
again as they were, and scored. Where the world answers otherwise by now, the episode is another, and its score is left as it was; so is
what broke, timed out, or belongs to a task that is in none of the files. All are counted, with reasons.

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
    parser.add_argument("--changes", type=Path, metavar="FILE", help="write what came of each trajectory (JSONL)")
    parser.add_argument("--fail", action="store_true", help="exit with 1 if a score changed")


def run(args: argparse.Namespace) -> int:
    from coevolve.audit.rescoring import SAME, counted, moved, rescore, with_scores
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
    others = moved(found)
    print(f"{args.trajectories}: {len(others)} of {len(found)} scores are others in {environment.fingerprint}")
    for kind, count in counted(found).items():
        print(f"  {count:6d} {kind}")
        for one in [other for other in found if other.kind == kind != SAME][:SHOWN]:
            scores = "" if one.after is None else f"{one.before:.2f} then, {one.after:.2f} now: "
            print(f"         {one.trajectory_id}  {scores}{plain(one.why)}")
    return 1 if args.fail and others else 0
