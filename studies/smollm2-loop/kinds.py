"""Success of each policy on `test`, by what the last dataset of the run teaches about a task.

dvc exp apply smollm2-loop-static-0
python studies/smollm2-loop/kinds.py
"""

from collections import defaultdict

from coevolve import Task, read_run
from coevolve.core.io import read_tasks
from coevolve.core.paths import Paths

run = read_run(".")
trained = run.datasets[-2]  # the last that a policy learned from
tools = {call.name for task in trained for call in task.calls}
kinds = {frozenset(call.name for call in task.calls) for task in trained}


def covered(task: Task) -> str:
    """How much of ``task`` the dataset has."""
    used = frozenset(call.name for call in task.calls)
    return "its set of tools" if used in kinds else "its tools in other sets" if used <= tools else "not all its tools"


def asks(task: Task) -> str:
    """Whether ``task`` wants an answer."""
    return "asks for a value" if any(call.arguments.get("answer") for call in task.calls) else "asks nothing"


added = [task for task in trained if task.split != "seed"]
asking = [task for task in added if asks(task) == "asks for a value"]
print(f"trained on {len(trained)} tasks, {len(tools)} tools, {len(kinds)} sets of tools")
print(f"of {len(added)} new tasks, {len(asking)} ask for a value:")
for task in asking:
    print(f"  {task.turns[0]}")
for about in (covered, asks):
    groups = defaultdict(list)
    for task in read_tasks(Paths.panel("test")):
        groups[about(task)].append(task.task_id)
    for name, ids in groups.items():
        won = [{one.task_id for one in played if one.panel == "test" and one.success} for played in run.evaluations]
        print(f"{name:25} {len(ids):3} tasks ", *(f"{len(policy & {*ids}) / len(ids):.3f}" for policy in won))
