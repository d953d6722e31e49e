"""What came of a run: one summary, one curve, what needs a look, and who is champion. Reads files alone."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coevolve.core.io import read_json, read_jsonl, read_jsonl_objects
from coevolve.core.params import Params
from coevolve.core.paths import Paths
from coevolve.core.records import Signal, Trajectory, Verdict
from coevolve.environments.registry import make
from coevolve.stages.report.champion import champion
from coevolve.stages.signals.kinds import KINDS
from coevolve.stages.watch import Indicator

ASKING = ("explore", "synthesize")  # the stages that may ask an endpoint
ALMOST_NOTHING = 0.05  # success below which a policy is said to solve almost nothing

Summary = dict[str, Any]


def summarize(params: Params) -> Summary:
    """The numbers of every iteration, from the files of the pipeline."""
    last = params.iterations[-1].next
    panels = make(params.environment).panels
    found = [read_json(Paths.evaluation(t) / "metrics.json") for t in range(last + 1)]
    policies = [{"t": t, "panels": {name: one[name] for name in panels}} for t, one in enumerate(found)]
    summary: Summary = {
        "environment": params.environment,
        "seed": params.seed,
        "confidence": params.evaluate.confidence,
        "policies": policies,
        "iterations": [_iteration(one.t) for one in params.iterations],
        "tasks": [_lines(Paths.tasks(t)) for t in range(last + 1)],
    }
    summary["budget"] = _budget(params, summary)
    summary["spent"] = spent(summary["iterations"])
    summary["champion"] = champion(params)
    summary["notes"] = _notes(summary)
    return summary


def _lines(path: Path) -> int:
    return sum(1 for _ in read_jsonl_objects(path))


def _iteration(t: int) -> dict[str, Any]:
    signals = Counter(signal.kind for signal in read_jsonl(Paths.signals(t), Signal))
    verdicts = read_jsonl(Paths.verified(t) / "verdicts.jsonl", Verdict)
    rejected = Counter(gate.name for verdict in verdicts for gate in verdict.gates if gate.passed is False)
    steps = [value for _, value in read_jsonl_objects(Paths.data(t) / "train_metrics.jsonl")]
    rates = [verdict.pass_rate for verdict in verdicts if verdict.accepted and verdict.pass_rate is not None]
    return {
        "t": t,
        "tasks": _lines(Paths.tasks(t)),
        "signals": {kind: signals[kind] for kind in KINDS},
        "explorations": _lines(Paths.explorations(t)),
        "candidates": len(verdicts),
        "accepted": sum(verdict.accepted for verdict in verdicts),
        "rejected": dict(sorted(rejected.items())),
        "pass_rate": sum(rates) / len(rates) if rates else None,
        "spent": {stage: read_json(Paths.requests(t, stage) / "spend.json") for stage in ASKING},
        "watch": read_json(Paths.watch(t)),
        "validation": read_json(Paths.validation(t + 1) / "metrics.json"),
        "train": {
            "steps": len(steps),
            "success_first": steps[0]["success"] if steps else None,
            "success_last": steps[-1]["success"] if steps else None,
            "groups": sum(step["groups"] for step in steps),
            "groups_without_variance": sum(step["groups_without_variance"] for step in steps),
        },
    }


def _budget(params: Params, summary: Summary) -> dict[str, int]:
    """What the run was allowed, and took, so that arms can be compared: the same steps, rollouts and evaluations."""
    iterations = summary["iterations"]
    return {
        "gradient steps": sum(one["train"]["steps"] for one in iterations),
        "training episodes": int(sum(one["train"]["groups"] for one in iterations)) * params.train.group_size,
        "explorations": sum(one["explorations"] for one in iterations),
        "candidates": sum(one["candidates"] for one in iterations),
        "evaluation episodes": sum(panel["tasks"] for one in summary["policies"] for panel in one["panels"].values()),
    }


def spent(iterations: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What all iterations asked of endpoints, and what an accepted task cost."""
    sums = [one["spent"][stage] for one in iterations for stage in ASKING]
    accepted = sum(one["accepted"] for one in iterations)
    found = {name: sum(one[name] for one in sums) for name in ("replies", "prompt_tokens", "completion_tokens", "cost")}
    tokens = found["prompt_tokens"] + found["completion_tokens"]
    per_task = {"tokens_per_task": tokens / accepted, "cost_per_task": found["cost"] / accepted} if accepted else {}
    dropped = {name: sum(one[name] for one in sums) for name in ("dropped", "unanswered", "out of budget")}
    return {**found, **dropped, **per_task}


def _notes(summary: Summary) -> list[str]:
    notes = []
    best = {name: max(p["panels"][name]["success"] for p in summary["policies"]) for name in _panels(summary)}
    weak = [name for name, success in best.items() if success < ALMOST_NOTHING]
    if weak:
        notes.append(
            f"The policy solves almost nothing of {', '.join(weak)} (under {ALMOST_NOTHING:.0%} at every iteration): "
            "read these runs for the machinery, not for the agent."
        )
    for one in summary["iterations"]:
        found = [Indicator(name, kept["value"], kept["limit"], kept["critical"]) for name, kept in one["watch"].items()]
        notes += [f"Iteration {one['t']}: {indicator}." for indicator in found if indicator.past]
    return notes


def _panels(summary: Summary) -> list[str]:
    return list(summary["policies"][0]["panels"])


def curve(summary: Summary) -> str:
    """curve.csv: success with its interval, by iteration and panel."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["iteration", "panel", "success", "low", "high", "tasks"])
    for policy in summary["policies"]:
        for name, one in policy["panels"].items():
            writer.writerow([policy["t"], name, one["success"], one["low"], one["high"], summary["tasks"][policy["t"]]])
    return text.getvalue()


def table(summary: Summary) -> str:
    """The table that ends a run. Row t: the data that policy t was trained up to, and what it can do."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, title=f"coevolve on {summary['environment']}", title_justify="left")
    for name in ("t", "tasks", *KINDS, "candidates", "accepted", *_panels(summary)):
        shown.add_column(name, justify="right", no_wrap=True)
    iterations = {one["t"]: one for one in summary["iterations"]}
    for policy in summary["policies"]:
        one = iterations.get(policy["t"])
        loop = (
            [*(str(one["signals"][kind]) for kind in KINDS), str(one["candidates"]), str(one["accepted"])]
            if one
            else ["-"] * (len(KINDS) + 2)
        )
        success = [
            f"{panel['success']:.2f} ±{(panel['high'] - panel['low']) / 2:.2f}" for panel in policy["panels"].values()
        ]
        shown.add_row(str(policy["t"]), str(summary["tasks"][policy["t"]]), *loop, *success)
    text = io.StringIO()
    Console(file=text, width=140, color_system=None).print(shown)
    holder = summary["champion"]
    lines = [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]
    lines.append("")
    lines.append(
        "Row t: dataset t, the signals found while training on it, and the success of policy t on the frozen panels, "
        f"± half its {summary['confidence']:.0%} interval"
    )
    lines.append(f"Champion on {holder['panel']}: policies/{holder['policy']}. {holder['challenges'][-1]['reason']}")
    lines.append("Budget: " + ", ".join(f"{count:,} {name}" for name, count in summary["budget"].items()))
    lines.extend(_bill(summary["spent"]))
    lines.extend(summary["notes"])
    lines.append("Look on: `make ui` (MLflow), report/index.html, data/*/validation/report.md, `dvc exp show`")
    return "\n".join(lines)


def _bill(spent: dict[str, float]) -> list[str]:
    """What was asked of endpoints, in words; nothing where nothing was asked."""
    if not spent["replies"]:
        return []
    tokens = spent["prompt_tokens"] + spent["completion_tokens"]
    line = f"Asked of endpoints: {spent['replies']} replies, {tokens:,} tokens"
    line += f", ${spent['cost']:.2f}" if spent["cost"] else ""
    if "tokens_per_task" in spent:
        line += f"; {spent['tokens_per_task']:,.0f} tokens"
        line += f", ${spent['cost_per_task']:.4f}" if spent["cost"] else ""
        line += " for each accepted task"
    lost = {name: spent[name] for name in ("dropped", "unanswered", "out of budget") if spent[name]}
    return [line, *([f"Replies lost: {', '.join(f'{count} {name}' for name, count in lost.items())}"] if lost else [])]


def flat(summary: Summary) -> dict[str, float]:
    """Metrics of the pipeline's run: the last policy's, and its gain over the first."""
    first, last = summary["policies"][0]["panels"], summary["policies"][-1]["panels"]
    found: dict[str, float] = {"tasks": float(summary["tasks"][-1])}
    found.update({f"endpoint/{name.replace(' ', '_')}": float(value) for name, value in summary["spent"].items()})
    for name in last:
        found[f"{name}/success"] = last[name]["success"]
        found[f"{name}/gain"] = last[name]["success"] - first[name]["success"]
    return found


def weakest(trajectories: Sequence[Trajectory], count: int) -> list[Trajectory]:
    """The ``count`` trajectories of lowest score, of different tasks as long as there are any."""
    ordered = sorted(trajectories, key=lambda one: (one.score, one.trajectory_id))
    seen: Counter[str] = Counter()
    visits = []
    for one in ordered:
        seen[one.task_id] += 1
        visits.append((seen[one.task_id], one))
    return [one for _, one in sorted(visits, key=lambda pair: (pair[0], pair[1].score))][:count]
