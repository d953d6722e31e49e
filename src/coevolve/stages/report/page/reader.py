"""The report page, self-contained, so that it needs no network, and its contents as plain values.

They are the agent's attempts at a task side by side, the kinds of signals, and new tasks with their lineage.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from coevolve.core.io import read_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Generation, Pair, Signal
from coevolve.core.success import is_success
from coevolve.core.task import Task, readable
from coevolve.core.terminal import plain
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.policies.call_format import CLOSE, OPEN, parse_reply
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.pairs.closeness import parting
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.signals.strongest import subject

SHOWN = 1500  # most characters of a message
TURNS = 40  # most messages of an attempt
PAGE = "coevolve.stages.report.page"
GENERATOR, UNGUIDED = "the generator", "no signal"
NEW = 10  # most new tasks per iteration to show
CALL = re.compile(f"{OPEN}.*?{CLOSE}", re.DOTALL)

Item = TypeVar("Item")


def alternating(items: Iterable[Item], kind: Callable[[Item], Hashable]) -> list[Item]:
    """``items`` in turns over their kinds: the first of each kind in their order, then the second of each, and so on."""
    seen: Counter[Hashable] = Counter()
    turns: dict[int, list[Item]] = defaultdict(list)
    for item in items:
        seen[kind(item)] += 1
        turns[seen[kind(item)]].append(item)
    return [item for turn in sorted(turns) for item in turns[turn]]


def read_existing(path: Path, kind: type[Item]) -> list[Item]:
    """The records of a file that a project without its stage lacks."""
    return read_jsonl(path, kind) if path.exists() else []


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

    played = [list(group) for _, group in groupby(trajectories, key=lambda one: (one.step, one.group))]
    # each task's latest group with the strongest signal, if an attempt counts
    best = {group[0].task_id: group for group in sorted(played, key=rank, reverse=True)}

    def weakness(group: Sequence[Trajectory]) -> tuple[int, float, str]:
        scores = [trajectory.score for trajectory in group if trajectory.counts]
        return strongest(group), sum(scores) / len(scores) if scores else inf, group[0].task_id

    chosen = alternating(sorted(best.values(), key=weakness), strongest)[:count]
    return [_group(group, by_id.get(group[0].task_id), fired, beside.get(group[0].task_id, ())) for group in chosen]


def compared(t: int) -> dict[str, list[tuple[str, Trajectory]]]:
    """The episodes beside the agent's attempts, by task of a pair: the reference and the closest hard negative."""
    comparisons: dict[str, list[tuple[str, Trajectory]]] = {}
    if not (pairs := read_existing(Paths.pairs(t) / "pairs.jsonl", Pair)):
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
    attempts = [*others, *((str(number), trajectory) for number, trajectory in enumerate(group, 1))]
    return {
        "first": group[0],
        "instruction": " / ".join(task.turns) if task else "",
        "reference": [call.name for call in task.calls] if task else [],
        "count": len(counted),
        "solved": sum(is_success(trajectory.score) for trajectory in counted),
        "signals": [
            {"kind": signal.kind, "about": " > ".join(signal.pattern or ["this task"]), "evidence": _evidence(signal)}
            for signal in shown.values()
        ],
        "attempts": [
            {
                "who": who,
                "episode": episode,
                "parts": _parts(episode, others),
                "outcome": ("solved" if is_success(episode.score) else "failed") if episode.counts else "not counted",
                "failed": [name for name, passed in episode.checks.items() if not passed],
                "shows": sorted({signal.kind for signal in fired[episode.trajectory_id]}),
                "turns": _turns(episode.messages[1:]),
            }
            for who, episode in attempts
        ],
    }


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
    text = CALL.sub(_call, message["content"]).strip()
    more = len(text) - SHOWN
    return {"role": message["role"], "text": text if more <= 0 else f"{text[:SHOWN]} … {more} characters more"}


def html_page(template: str, **values: Any) -> str:
    """The page of a ``template``. All ``values`` are escaped, unless the template says `safe`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(PAGE, "")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.finalize = lambda value: plain(value) if type(value) is str else value  # a model may write control characters
    style = (files(PAGE) / "page.css").read_text(encoding="utf-8")
    return pages.get_template(template).render(**values, style=style)


def strength(summary: Summary) -> list[str]:
    """The kinds of signals, the strongest first, as in the summaries of stage `signals`."""
    return list(dict.fromkeys(kind for stage in summary.stages if stage.stage == "signals" for kind in stage.columns))


def added(
    tasks: Sequence[Task],
    following: Sequence[Task],
    signals: Sequence[Signal],
    specs: Sequence[Generation],
    links: Mapping[str, str],
) -> dict[str, Any]:
    """The tasks that an iteration added: their numbers by origin, new families, and up to ``NEW`` with their lineage.

    ``tasks`` and ``following`` are the datasets before and after it. A task's origin is the kind of its first signal,
    or the task generator. The tasks with lineage alternate between origins. ``links`` holds the page's anchors of
    trajectories by id.
    """
    words = {task.task_id: " / ".join(task.turns) for task in tasks}
    by_id = {signal.signal_id: signal for signal in signals}
    generated = {exploration_of(spec) for spec in specs}

    def row(task: Task) -> dict[str, Any]:
        source = task.provenance
        causes = [by_id[name] for name in source.signal_ids if name in by_id] if source else []
        guide = GENERATOR if source and source.exploration_id in generated else UNGUIDED
        return {
            "task": task,
            "origin": causes[0].kind if causes else guide,
            "about": subject(causes[0], words) if causes else "",
            "link": next((links[name] for one in causes for name in one.trajectory_ids if name in links), None),
            "rate": source.pass_rate if source else None,
        }

    new = [row(task) for task in following if task.task_id not in words]
    return {
        "tasks": len(new),
        "families": len({one["task"].family for one in new} - {task.family for task in tasks}),
        "origins": Counter(one["origin"] for one in new).most_common(),
        "shown": alternating(new, lambda one: one["origin"])[:NEW],
    }
