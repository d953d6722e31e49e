"""What the report page shows, as plain values, from the files of the pipeline. A part whose files are not there is left out."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from coevolve.core.io import read_json, read_jsonl, read_jsonl_objects, read_tasks
from coevolve.core.paths import Paths
from coevolve.core.records import Candidate, Exploration, Pair, Signal, Verdict
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.stages.pairs.closeness import parting
from coevolve.stages.report.page.generated import explored, written
from coevolve.stages.report.page.reviewed import asked
from coevolve.stages.report.summary import Summary

SEED, GENERATOR, UNGUIDED = "seed tasks", "the generator", "no signal"
TOOLS = 24  # tools that the composition lists, at most
REASONS = 3  # examples of a gate's reasons
SHOWN = 1500  # characters of a message
TURNS = 40  # messages of an attempt

Record = TypeVar("Record")


def gather(summary: Summary, alpha: float) -> dict[str, Any]:
    """All that the page needs but its ``groups``; ``alpha`` is what a generator aims at."""
    ts = range(summary.last)
    signals = {t: _read(Paths.signals(t), Signal) for t in ts}
    kinds = {one.signal_id: one.kind for found in signals.values() for one in found}
    kinds |= dict.fromkeys(explored(summary.last), GENERATOR)
    order = strength(summary)
    datasets = [read_tasks(Paths.tasks(t)) for t in range(summary.last + 1)]
    return {
        "summary": summary,
        "kinds": order,
        "origins": origins(datasets, kinds, order),
        "tools": tools(datasets),
        "added": [added(datasets, t) for t in ts],
        "journey": [journey(t, signals[t], kinds, order) for t in ts],
        "outcomes": [one for t in ts for one in outcomes(t)],
        "generator": written(summary.last, alpha),
        "review": asked(summary.last),
        "quarantine": [one for t in ts for one in quarantine(t + 1)],
        "watch": [
            {"t": t, "name": name, **found}
            for t in ts
            if Paths.watch(t).exists()
            for name, found in read_json(Paths.watch(t)).items()
        ],
        "stages": figures(summary),
        "costs": costs(summary),
    }


def _read(path: Path, kind: type[Record]) -> list[Record]:
    return read_jsonl(path, kind) if path.exists() else []


def strength(summary: Summary) -> list[str]:
    """The kinds of signals, the strongest first: stage `signals` counts them in this order."""
    return list(dict.fromkeys(kind for one in summary.stages if one.stage == "signals" for kind in one.columns))


def _kind(signal_ids: Sequence[str], exploration_id: str, kinds: Mapping[str, str]) -> str:
    """Of what led there: ``kinds`` are those of signals, and of explorations that no signal led to, by id."""
    return kinds.get(signal_ids[0] if signal_ids else exploration_id, UNGUIDED)


def _origin(task: Task, kinds: Mapping[str, str]) -> str:
    made = task.provenance
    return SEED if made is None else _kind(made.signal_ids, made.exploration_id, kinds)


def origins(datasets: Sequence[Sequence[Task]], kinds: Mapping[str, str], order: Sequence[str]) -> list[dict[str, Any]]:
    """Of each dataset, how many tasks there are for each reason to be there; ``order`` is that of the kinds."""
    counts = [Counter(_origin(task, kinds) for task in tasks) for tasks in datasets]
    reasons = (SEED, *order, GENERATOR, UNGUIDED)
    used = [name for name in reasons if any(count[name] for count in counts)]
    return [
        {"dataset": t, "origin": name, "tasks": count[name], "order": reasons.index(name)}
        for t, count in enumerate(counts)
        for name in used
    ]


def tools(datasets: Sequence[Sequence[Task]]) -> list[dict[str, Any]]:
    """Of each dataset, the share of tasks whose reference uses a tool; without those that every task uses."""
    counts = [Counter(name for task in tasks for name in task.tools) for tasks in datasets]
    total = sum(counts, Counter[str]())
    shown = [name for name, count in total.most_common() if count < sum(map(len, datasets))][:TOOLS]
    return [
        {"dataset": t, "tool": name, "tasks": count[name], "share": count[name] / max(len(tasks), 1)}
        for t, (count, tasks) in enumerate(zip(counts, datasets, strict=True))
        for name in shown
    ]


def added(datasets: Sequence[Sequence[Task]], t: int) -> dict[str, Any]:
    """The families that iteration ``t`` added most of, and how many it was the first to add."""
    before = {task.family for task in datasets[t]}
    known = {task.task_id for task in datasets[t]}
    fresh = [task for task in datasets[t + 1] if task.task_id not in known]
    families = Counter(task.family for task in fresh)
    return {
        "t": t,
        "tasks": len(fresh),
        "families": len(families),
        "new": len(set(families) - before),
        "most": [
            (name or "untagged", many) for name, many in sorted(families.items(), key=lambda one: (-one[1], one[0]))[:5]
        ],
    }


def journey(t: int, signals: Sequence[Signal], kinds: Mapping[str, str], order: Sequence[str]) -> dict[str, Any]:
    """Where the signals of iteration ``t`` went, by kind: explorations, candidates, accepted tasks."""

    made = [one.task.provenance for one in _read(Paths.candidates(t), Candidate)]
    accepted = [one.provenance for one in _read(Paths.verified(t) / "accepted.jsonl", Task)]
    columns = {
        "signals": Counter(one.kind for one in signals),
        **{
            name: Counter(_kind(one.signal_ids, one.exploration_id, kinds) for one in found if one)
            for name, found in (
                ("explorations", _read(Paths.explorations(t), Exploration)),
                ("candidates", made),
                ("accepted", accepted),
            )
        },
    }
    rows = [name for name in (*order, GENERATOR, UNGUIDED) if any(column[name] for column in columns.values())]
    return {"t": t, "rows": [{"kind": name, **{key: column[name] for key, column in columns.items()}} for name in rows]}


def outcomes(t: int) -> list[dict[str, Any]]:
    """Of the candidates of iteration ``t``: how many were accepted, and how many each gate rejected, with some reasons."""
    verdicts = _read(Paths.verified(t) / "verdicts.jsonl", Verdict)
    found: dict[str, list[str]] = defaultdict(list)
    for verdict in verdicts:
        for gate in verdict.gates:
            if gate.passed is False:
                found[gate.name].append(gate.reason)
    rejected = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
    rows: list[tuple[str | None, int, list[str]]] = [(None, sum(verdict.accepted for verdict in verdicts), [])]
    rows += [(name, len(reasons), list(dict.fromkeys(reasons))[:REASONS]) for name, reasons in rejected]
    return [
        {"t": t, "gate": gate, "candidates": count, "reasons": reasons} for gate, count, reasons in rows if verdicts
    ]


def quarantine(t: int) -> list[dict[str, Any]]:
    """By expectation: how many rows of dataset ``t`` broke it."""
    file = Paths.validation(t) / "quarantine.jsonl"
    rows = [value for _, value in read_jsonl_objects(file, ["expectations"])] if file.exists() else []
    found = Counter(name for row in rows for name in row["expectations"])
    return [{"dataset": t, "expectation": name, "rows": count} for name, count in sorted(found.items())]


def figures(summary: Summary) -> list[dict[str, Any]]:
    """Stage by stage: its figures by iteration, and what it has plotted; not of a stage that had nothing to do."""
    found = []
    for name in dict.fromkeys(one.stage for one in summary.stages if one.figures):
        ours = [one for one in summary.stages if one.stage == name]
        names = list(dict.fromkeys(figure for one in ours for figure in one.figures))
        plots: dict[str, list[dict[str, Any]]] = {}
        for one in ours:
            for title, plotted in one.plots.items():
                values = [(figure, one.figures[figure]) for figure in plotted]
                plots.setdefault(title, []).extend(
                    {"iteration": one.iteration, "figure": figure, "value": value}
                    for figure, value in values
                    if value is not None
                )
        rows = [{"t": one.iteration, "values": [one.figures.get(figure) for figure in names]} for one in ours]
        found.append({"stage": name, "names": names, "rows": rows, "plots": plots})
    return found


def costs(summary: Summary) -> list[dict[str, Any]]:
    """What the run took, by iteration and together."""
    ts = range(summary.last + 1)
    return [
        {
            "name": name,
            "spent": [
                sum(one.figures[name] or 0 for one in summary.stages if one.iteration == t and name in one.costs)
                for t in ts
            ],
            "total": total,
        }
        for name, total in summary.budget.items()
    ]


def groups(
    trajectories: Sequence[Trajectory],
    tasks: Sequence[Task],
    signals: Sequence[Signal],
    order: Sequence[str],
    count: int,
    beside: Mapping[str, Sequence[tuple[str, Trajectory]]],
) -> list[dict[str, Any]]:
    """``count`` groups of attempts to read: of tasks with signals first, of the lowest score first.

    ``order`` is that of the signals' kinds, the strongest first; ``beside`` are episodes by task that are no attempts of the agent
    in training: whose, the reference's first.
    """
    by_id = {task.task_id: task for task in tasks}
    fired: dict[str, list[Signal]] = defaultdict(list)
    for signal in signals:
        for name in signal.trajectory_ids:
            fired[name].append(signal)

    def strongest(group: Sequence[Trajectory]) -> int:
        kinds = {signal.kind for one in group for signal in fired[one.trajectory_id]}
        return min((order.index(kind) for kind in kinds), default=len(order))

    best: dict[str, list[Trajectory]] = {}  # of each task the group of the strongest signal, the latest of these
    for _, one in groupby(trajectories, key=lambda one: (one.step, one.group)):
        group = list(one)
        known = best.get(group[0].task_id)
        if known is None or strongest(group) <= strongest(known):
            best[group[0].task_id] = group

    def weakness(group: Sequence[Trajectory]) -> tuple[int, float, str]:
        return strongest(group), sum(one.score for one in group) / len(group), group[0].task_id

    chosen = _in_turn(sorted(best.values(), key=weakness), strongest)[:count]
    return [_group(group, by_id.get(group[0].task_id), fired, beside.get(group[0].task_id, ())) for group in chosen]


def compared(t: int) -> dict[str, list[tuple[str, Trajectory]]]:
    """By task, what pairs of iteration ``t`` put beside the agent's attempts: the reference, and the closest hard negative."""
    found: dict[str, list[tuple[str, Trajectory]]] = {}
    if not (pairs := _read(Paths.pairs(t) / "pairs.jsonl", Pair)):
        return found
    paired, ranks = {one.task_id for one in pairs}, {one.rejected: one.closeness for one in pairs}
    for one in read_trajectories(Paths.pairs(t) / "references.parquet"):
        if one.task_id in paired:
            found[one.task_id] = [("reference", one)]
    hard = read_trajectories(Paths.pairs(t) / "hard.parquet")
    known = [one for one in hard if one.trajectory_id in ranks and one.task_id in found]
    for one in sorted(known, key=lambda one: (-ranks[one.trajectory_id], one.trajectory_id)):
        if len(found[one.task_id]) < 2:
            found[one.task_id].append(("hard negative", one))
    return found


def _in_turn(found: Sequence[Any], key: Any) -> list[Any]:
    """``found``, sorted by ``key``, one of each key after the other."""
    queues = [list(many) for _, many in groupby(found, key=key)]
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]


def _group(
    group: Sequence[Trajectory],
    task: Task | None,
    fired: Mapping[str, Sequence[Signal]],
    others: Sequence[tuple[str, Trajectory]],
) -> dict[str, Any]:
    shown = {signal.signal_id: signal for one in group for signal in fired[one.trajectory_id]}
    return {
        "iteration": group[0].iteration,
        "step": group[0].step,
        "task_id": group[0].task_id,
        "instruction": " / ".join(task.turns) if task else "",
        "reference": [call.name for call in task.calls] if task else [],
        "count": len(group),
        "solved": sum(is_success(one.score) for one in group),
        "signals": [
            {"kind": one.kind, "about": " > ".join(one.pattern or []) or "this task", "evidence": _evidence(one)}
            for one in shown.values()
        ],
        "attempts": [
            {
                "id": one.trajectory_id,
                "who": who,
                "parts": _parts(one, others),
                "score": one.score,
                "success": is_success(one.score),
                "stop": str(one.stop_reason),
                "failed": [name for name, passed in one.checks.items() if not passed],
                "shows": sorted({signal.kind for signal in fired[one.trajectory_id]}),
                "turns": _turns(one.messages[1:]),
            }
            for who, one in [*others, *((str(place), one) for place, one in enumerate(group, 1))]
        ],
    }


def _parts(one: Trajectory, others: Sequence[tuple[str, Trajectory]]) -> int | None:
    """The message after the first in which a failure parts from the reference; None where nothing tells."""
    if not others or is_success(one.score):
        return None
    place = parting(one.calls, others[0][1].calls)
    said, made = None, 0
    for number, message in enumerate(one.messages[1:]):
        if message["role"] == "assistant":
            said = number
        elif made < len(one.calls) and message["content"] == one.calls[made].observation:
            if made == place:
                return said
            made += 1
    return said  # it says nothing more, where the reference does


def _evidence(signal: Signal) -> str:
    shown = ("count", "total") if signal.pattern else signal.evidence
    return ", ".join(f"{key} {signal.evidence[key]}" for key in shown if not isinstance(signal.evidence[key], list))


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    shown = [_turn(message) for message in messages[:TURNS]]
    left = len(messages) - TURNS
    return shown if left <= 0 else [*shown, {"role": "cut", "text": f"… {left} messages more"}]


def _turn(message: Mapping[str, Any]) -> dict[str, str]:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else json.dumps(content)
    for call in message.get("tool_calls") or []:
        made = call.get("function", call)
        arguments = made.get("arguments", {})
        given = arguments if isinstance(arguments, str) else json.dumps(arguments)
        text += f"\n{made['name']}({given})"
    text = text.strip()
    more = len(text) - SHOWN
    return {"role": message["role"], "text": text if more <= 0 else f"{text[:SHOWN]} … {more} characters more"}
