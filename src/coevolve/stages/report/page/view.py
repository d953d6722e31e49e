"""The values of the report page, from the files of the pipeline. A part without files is left out."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, zip_longest
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from coevolve.core.calls import readable
from coevolve.core.io import read_jsonl, read_tasks
from coevolve.core.paths import Paths
from coevolve.core.records import Candidate, Exploration, Pair, Signal
from coevolve.core.success import is_success
from coevolve.core.task import Provenance, Task
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.policies.agent_prompt import CLOSE, OPEN, parse_reply
from coevolve.stages.pairs.closeness import parting
from coevolve.stages.report.page.generated import explored, written
from coevolve.stages.report.page.verification import measured, outcomes, read_verdicts, selection, unchecked
from coevolve.stages.report.run_summary import Summary

SEED, GENERATOR, UNGUIDED = "seed tasks", "the generator", "no signal"
SHOWN = 1500  # most characters of a message
CALL = re.compile(f"{OPEN}.*?{CLOSE}", re.DOTALL)
TURNS = 40  # most messages of an attempt

Record = TypeVar("Record")


def gather(summary: Summary, alpha: float) -> dict[str, Any]:
    """All values of the page except ``groups``. ``alpha`` is the target success of the task generator."""
    ts = range(summary.last)
    signals = {t: _read(Paths.signals(t), Signal) for t in ts}
    kinds = {signal.signal_id: signal.kind for batch in signals.values() for signal in batch}
    kinds |= dict.fromkeys(explored(summary.last), GENERATOR)
    order = strength(summary)
    datasets = [read_tasks(Paths.tasks(t)) for t in range(summary.last + 1)]
    verdicts = {t: read_verdicts(t) for t in ts}
    return {
        "summary": summary,
        "kinds": order,
        "origins": origins(datasets, kinds, order),
        "added": [added(datasets, t) for t in ts],
        "journey": [journey(t, signals[t], kinds, order) for t in ts],
        "outcomes": [row for t, batch in verdicts.items() for row in outcomes(t, batch)],
        "unchecked": [row for t, batch in verdicts.items() for row in unchecked(t, batch)],
        "selections": [row for t, batch in verdicts.items() if (row := selection(t, batch))],
        "generator": written(summary.last, alpha),
        "watch": measured(summary.last),
    }


def _read(path: Path, kind: type[Record]) -> list[Record]:
    return read_jsonl(path, kind) if path.exists() else []


def strength(summary: Summary) -> list[str]:
    """The kinds of signals, the strongest first, as in the summaries of stage `signals`."""
    return list(dict.fromkeys(kind for stage in summary.stages if stage.stage == "signals" for kind in stage.columns))


def _kind(signal_ids: Sequence[str], exploration_id: str, kinds: Mapping[str, str]) -> str:
    """The kind of the first signal, or else of the exploration. ``kinds`` maps the ids of both to kinds."""
    return kinds.get(signal_ids[0] if signal_ids else exploration_id, UNGUIDED)


def _origin(task: Task, kinds: Mapping[str, str]) -> str:
    provenance = task.provenance
    return SEED if provenance is None else _kind(provenance.signal_ids, provenance.exploration_id, kinds)


def origins(datasets: Sequence[Sequence[Task]], kinds: Mapping[str, str], order: Sequence[str]) -> list[dict[str, Any]]:
    """The numbers of tasks in each dataset by origin. ``order`` is the order of the kinds."""
    counts = [Counter(_origin(task, kinds) for task in tasks) for tasks in datasets]
    reasons = (SEED, *order, GENERATOR, UNGUIDED)
    used = [name for name in reasons if any(count[name] for count in counts)]
    return [
        {"dataset": t, "origin": name, "tasks": count[name], "order": reasons.index(name)}
        for t, count in enumerate(counts)
        for name in used
    ]


def added(datasets: Sequence[Sequence[Task]], t: int) -> dict[str, Any]:
    """The tasks and families that iteration ``t`` added, the number of new families, and the most frequent ones."""
    before = {task.family for task in datasets[t]}
    earlier = {task.task_id for task in datasets[t]}
    new = [task for task in datasets[t + 1] if task.task_id not in earlier]
    families = Counter(task.family for task in new)
    return {
        "t": t,
        "tasks": len(new),
        "families": len(families),
        "new": len(set(families) - before),
        "most": [
            (name or "untagged", count)
            for name, count in sorted(families.items(), key=lambda item: (-item[1], item[0]))[:5]
        ],
    }


def journey(t: int, signals: Sequence[Signal], kinds: Mapping[str, str], order: Sequence[str]) -> dict[str, Any]:
    """The numbers of signals, explorations, candidates and accepted tasks of iteration ``t``, by kind."""

    def count(sources: Iterable[Exploration | Provenance | None]) -> Counter[str]:
        return Counter(_kind(one.signal_ids, one.exploration_id, kinds) for one in sources if one)

    columns = {
        "signals": Counter(signal.kind for signal in signals),
        "explorations": count(_read(Paths.explorations(t), Exploration)),
        "candidates": count(candidate.task.provenance for candidate in _read(Paths.candidates(t), Candidate)),
        "accepted": count(task.provenance for task in _read(Paths.verified(t) / "accepted.jsonl", Task)),
    }
    rows = [name for name in (*order, GENERATOR, UNGUIDED) if any(column[name] for column in columns.values())]
    return {"t": t, "rows": [{"kind": name, **{key: column[name] for key, column in columns.items()}} for name in rows]}


def groups(
    trajectories: Sequence[Trajectory],
    tasks: Sequence[Task],
    signals: Sequence[Signal],
    order: Sequence[str],
    count: int,
    beside: Mapping[str, Sequence[tuple[str, Trajectory]]],
) -> list[dict[str, Any]]:
    """``count`` groups of attempts to read: tasks with signals first, then by lowest score of the attempts that count.

    ``order`` lists the signals' kinds, the strongest first. ``beside`` holds named episodes by task that are not the
    agent's attempts in training, the reference first.
    """
    by_id = {task.task_id: task for task in tasks}
    fired: dict[str, list[Signal]] = defaultdict(list)
    for signal in signals:
        for name in signal.trajectory_ids:
            fired[name].append(signal)

    def strongest(group: Sequence[Trajectory]) -> int:
        kinds = {signal.kind for trajectory in group for signal in fired[trajectory.trajectory_id]}
        return min((order.index(kind) for kind in kinds), default=len(order))

    def rank(group: Sequence[Trajectory]) -> tuple[bool, int]:
        return not any(trajectory.counts for trajectory in group), strongest(group)

    best: dict[str, list[Trajectory]] = {}  # each task's latest group with the strongest signal, if an attempt counts
    for _, attempts in groupby(trajectories, key=lambda trajectory: (trajectory.step, trajectory.group)):
        group = list(attempts)
        earlier = best.get(group[0].task_id)
        if earlier is None or rank(group) <= rank(earlier):
            best[group[0].task_id] = group

    def weakness(group: Sequence[Trajectory]) -> tuple[int, float, str]:
        scores = [trajectory.score for trajectory in group if trajectory.counts]
        return strongest(group), sum(scores) / len(scores) if scores else inf, group[0].task_id

    queues = [list(equal) for _, equal in groupby(sorted(best.values(), key=weakness), key=strongest)]
    chosen = [group for row in zip_longest(*queues) for group in row if group is not None][:count]  # kinds alternate
    return [_group(group, by_id.get(group[0].task_id), fired, beside.get(group[0].task_id, ())) for group in chosen]


def compared(t: int) -> dict[str, list[tuple[str, Trajectory]]]:
    """The episodes beside the agent's attempts, by task of a pair: the reference and the closest hard negative."""
    comparisons: dict[str, list[tuple[str, Trajectory]]] = {}
    if not (pairs := _read(Paths.pairs(t) / "pairs.jsonl", Pair)):
        return comparisons
    paired, ranks = {pair.task_id for pair in pairs}, {pair.rejected: pair.closeness for pair in pairs}
    for trajectory in read_trajectories(Paths.pairs(t) / "references.parquet"):
        if trajectory.task_id in paired:
            comparisons[trajectory.task_id] = [("reference", trajectory)]
    hard = read_trajectories(Paths.pairs(t) / "hard.parquet")
    negatives = [episode for episode in hard if episode.trajectory_id in ranks and episode.task_id in comparisons]
    for negative in sorted(negatives, key=lambda episode: (-ranks[episode.trajectory_id], episode.trajectory_id)):
        if len(comparisons[negative.task_id]) < 2:
            comparisons[negative.task_id].append(("hard negative", negative))
    return comparisons


def _group(
    group: Sequence[Trajectory],
    task: Task | None,
    fired: Mapping[str, Sequence[Signal]],
    others: Sequence[tuple[str, Trajectory]],
) -> dict[str, Any]:
    shown = {signal.signal_id: signal for trajectory in group for signal in fired[trajectory.trajectory_id]}
    counted = [trajectory for trajectory in group if trajectory.counts]
    return {
        "iteration": group[0].iteration,
        "step": group[0].step,
        "task_id": group[0].task_id,
        "instruction": " / ".join(task.turns) if task else "",
        "reference": [call.name for call in task.calls] if task else [],
        "count": len(counted),
        "solved": sum(is_success(trajectory.score) for trajectory in counted),
        "signals": [
            {
                "kind": signal.kind,
                "about": " > ".join(signal.pattern or []) or "this task",
                "evidence": _evidence(signal),
            }
            for signal in shown.values()
        ],
        "attempts": [
            {
                "id": trajectory.trajectory_id,
                "who": who,
                "parts": _parts(trajectory, others),
                "score": trajectory.score,
                "outcome": _outcome(trajectory),
                "stop": str(trajectory.stop_reason),
                "failed": [name for name, passed in trajectory.checks.items() if not passed],
                "shows": sorted({signal.kind for signal in fired[trajectory.trajectory_id]}),
                "turns": _turns(trajectory.messages[1:]),
            }
            for who, trajectory in [*others, *((str(number), trajectory) for number, trajectory in enumerate(group, 1))]
        ],
    }


def _outcome(trajectory: Trajectory) -> str:
    if not trajectory.counts:
        return "not counted"
    return "solved" if is_success(trajectory.score) else "failed"


def _parts(trajectory: Trajectory, others: Sequence[tuple[str, Trajectory]]) -> int | None:
    """The index, after the first message, of the message in which a failure parts from the reference.

    None for a success, for an attempt that does not count, or without a reference.
    """
    if not others or not trajectory.counts or is_success(trajectory.score):
        return None
    parting_call = parting(trajectory.calls, others[0][1].calls)
    reply, calls_seen = None, 0
    for number, message in enumerate(trajectory.messages[1:]):
        if message["role"] == "assistant":
            reply = number
        elif calls_seen < len(trajectory.calls) and message["content"] == trajectory.calls[calls_seen].observation:
            if calls_seen == parting_call:
                return reply
            calls_seen += 1
    return reply  # the failure ends before the reference does


def _evidence(signal: Signal) -> str:
    shown = ("count", "total") if signal.pattern else signal.evidence
    return ", ".join(f"{key} {signal.evidence[key]}" for key in shown if not isinstance(signal.evidence[key], list))


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    shown = [_turn(message) for message in messages[:TURNS]]
    left = len(messages) - TURNS
    return shown if left <= 0 else [*shown, {"role": "cut", "text": f"… {left} messages more"}]


def _call(match: re.Match[str]) -> str:
    """A call in a reply as a person writes it. An unreadable call stays as it is."""
    calls, _ = parse_reply(match[0])
    return readable(calls[0].name, calls[0].arguments) if calls else match[0]


def _turn(message: Mapping[str, Any]) -> dict[str, str]:
    content = message.get("content") or ""
    text = CALL.sub(_call, content) if isinstance(content, str) else json.dumps(content)
    for call in message.get("tool_calls") or []:
        function = call.get("function", call)
        arguments = function.get("arguments", {})
        name = function["name"]
        text += "\n" + (readable(name, arguments) if isinstance(arguments, Mapping) else f"{name}({arguments})")
    text = text.strip()
    more = len(text) - SHOWN
    return {"role": message["role"], "text": text if more <= 0 else f"{text[:SHOWN]} … {more} characters more"}
