"""``coevolve lineage``: show where a task comes from, or which data made a policy."""

import argparse

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from coevolve.core.io import read_tasks
from coevolve.core.paths import Paths
from coevolve.core.terminal import plain
from coevolve.lineage.ancestry import iterations, mixed, of_policy, of_task

LISTED = 20  # tasks to show if the user names none

HELP = """
  coevolve lineage               # list the newest tasks of the loop, with their ids and words
  coevolve lineage TASK_ID       # task -> verdict -> exploration -> signal -> failed trajectories -> training step -> policy
  coevolve lineage policies/3    # policy -> its datasets, the tasks added to them, and why -> the earlier policies

The beginning of an id is enough. The command reads the files of this workspace; `dvc checkout` restores the files of another
revision.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="TASK_ID|policies/T", help="(default: list tasks)")


def run(args: argparse.Namespace) -> int:
    if args.name is None:
        return _list()

    folder, _, name = args.name.rstrip("/").rpartition("/")
    if folder == "policies" and name.isdigit():
        top = of_policy(int(name))
        if warning := mixed():
            top.children.insert(0, Tree(f"warning: {warning}"))
    else:
        top = of_task(args.name)
    Console(width=1000, highlight=False).print(_printable(top))  # the terminal wraps
    return 0


def _printable(tree: Tree) -> Tree:
    printable = Tree(Text(plain(str(tree.label))))
    printable.children = [_printable(child) for child in tree.children]
    return printable


def _list() -> int:
    """Print the newest tasks of the loop."""
    tasks = read_tasks(Paths.tasks(iterations()[-1]))
    added = [task for task in tasks if task.provenance is not None][-LISTED:]
    for task in added:
        print(plain(f"{task.task_id}  {' / '.join(task.turns)[:100]}"))
    print(f"{len(added)} newest tasks of the loop; `coevolve lineage TASK_ID` shows where a task comes from")
    return 0
