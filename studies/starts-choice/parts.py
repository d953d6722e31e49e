"""Success on parts of the study's panel by arm: by how much a task asks for, and by its tools; and what was won and lost.

python studies/starts-choice/parts.py [STUDY]    # in the clone that holds the experiments
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from dvc.api import DVCFileSystem

from studies.study_results import load
from studies.study_runs import experiment

folder = Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent
study = load(folder / "study.yaml")


def rows(files: DVCFileSystem, path: str) -> list[dict]:
    return [json.loads(line) for line in files.read_text(path).splitlines()]


parts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
tools: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
for arm in study.arms:
    for seed in study.seeds:
        files = DVCFileSystem(rev=experiment(folder, arm, seed))
        try:
            played = [rows(files, f"evaluations/{t}/outcomes.jsonl") for t in (0, 1, 2, 3)]
            panel = {one["task_id"]: one for one in rows(files, f"data/panels/{study.panel}.jsonl")}
        except Exception as error:  # not run yet
            print(f"{arm} {seed}: {error}", file=sys.stderr)
            continue
        before, last = ({one["task_id"]: one for one in played[t] if one["panel"] == study.panel} for t in (0, -1))
        won = {name: float(one["success"]) for name, one in last.items()}
        parts["all"][arm].append(fmean(won.values()))
        for category in sorted({one["category"] for one in last.values()}):
            parts[category][arm].append(fmean(won[name] for name, one in last.items() if one["category"] == category))
        kept = [won[name] for name, one in before.items() if one["success"]]
        parts["solved before"][arm].append(fmean(kept))
        trained = [files.read_text(f"data/{t}/tasks.jsonl").splitlines() for t in (0, 1, 2, 3)]
        parts["new tasks"][arm].append(len(trained[-1]) - len(trained[0]))
        parts["that begin in the middle"][arm].append(sum('"prefix"' in line for line in trained[-1]))
        for name, task in panel.items():
            for tool in {call["name"] for turn in task["reference"] for call in turn}:
                tools[tool][arm].append(won[name])

arms = [arm for arm in study.arms if parts["all"][arm]]
print("| |", " | ".join(arms), "|")
for name, found in parts.items():
    print(f"| {name} |", " | ".join(f"{fmean(found[arm]):.3f}" if found[arm] else "" for arm in arms), "|")
late = sorted(tools, key=lambda tool: fmean(tools[tool]["default"] or [1.0]))[:8]
for tool in late:
    cells = (f"{fmean(tools[tool][arm]):.2f} of {len(tools[tool][arm])}" if tools[tool][arm] else "" for arm in arms)
    print(f"| {tool} |", " | ".join(cells), "|")
