"""Add a finished run to results.jsonl: `python studies/desk-smollm2/collect.py PROJECT ARM SEED COMMIT`."""

import json
import sys
from collections import Counter
from pathlib import Path

from coevolve.core.io import read_jsonl, read_tasks
from coevolve.core.outcomes import OUTCOMES, Outcome

project, arm, seed, code = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
sys.path.append(str(Path(__file__).parent))
from desk import SupportDesk  # noqa: E402  (a file of this folder)

line: dict[str, object] = {"arm": arm, "seed": seed, "code": code}
played = [
    read_jsonl(folder / OUTCOMES, Outcome)
    for folder in sorted((project / "evaluations").iterdir(), key=lambda one: int(one.name))
]
for panel in SupportDesk.panels:
    order = {one.task_id: one.category for one in played[0] if one.panel == panel}
    solved = [{one.task_id: one.success for one in policy if one.panel == panel} for policy in played]
    line[panel] = {
        "kinds": list(order.values()),
        "solved": ["".join(str(int(policy.get(task, False))) for task in order) for policy in solved],
    }
sets = [
    read_tasks(path) for path in sorted(project.glob("data/[0-9]*/tasks.jsonl"), key=lambda one: int(one.parent.name))
]
grown = Counter(SupportDesk().category(task) for task in sets[-1] if task.provenance is not None)
line["tasks"] = [len(tasks) for tasks in sets]
line["grown"] = dict(grown.most_common())
with (Path(__file__).parent / "results.jsonl").open("a") as file:
    file.write(json.dumps(line) + "\n")
