"""What rollouts say about an agent, in a few lines that a person can act on."""

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from coevolve.core.records import Signal
from coevolve.core.success import is_success
from coevolve.core.untrusted import one_line
from coevolve.rollouts.find_weaknesses import Evidence
from coevolve.rollouts.foreign_trajectories import FAILED, OUTSIDE, PARTIAL, REFUSED, UNNAMED, UNSTEPPED
from coevolve.stages.signals.strongest import first_requests, strongest, subject
from coevolve.stages.signals.table import NO_ANSWER

LINES = 15  # most lines of a report
SHOWN = 3  # most examples of a kind, and most notes
WORDS = 60  # characters of a task's words
TITLES = {
    "boundary": "solved now and then",
    "forgetting": "forgotten",
    "unsolved": "never solved",
    "rare": "rare tools",
}


class Shown:
    """Counts signals by kind, and keeps the strongest of each."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.counts = Counter(dict.fromkeys(kinds, 0))
        self.signals: dict[str, list[Signal]] = {kind: [] for kind in kinds}

    def seen(self, signal: Signal) -> Signal:
        self.counts[signal.kind] += 1
        self.signals[signal.kind] = strongest([*self.signals[signal.kind], signal], SHOWN)
        return signal


def report_of(found: Evidence, shown: Shown, threshold: float) -> dict[str, Any]:
    """The report as JSON."""
    account = found.account
    kept = list(chain.from_iterable(shown.signals.values()))
    words = first_requests(found.files, {signal.task_id for signal in kept if signal.task_id})
    notes = account.notes
    first = [account.mixture()] if len(account.agents) > 1 else []
    first += [_note(kind, *notes[kind]) for kind in (UNNAMED, FAILED) if kind in notes]
    told = (UNNAMED, FAILED, REFUSED, UNSTEPPED, PARTIAL, OUTSIDE)  # above, or in the lines of signals and rewards
    return {
        **found.table.summary(),
        "unnamed": len(account.unnamed),
        "formats": [rows.name for rows in found.options.formats.values()],
        "threshold": threshold,
        "signals": dict(shown.counts),
        "strongest": [
            {**asdict(signal), "subject": _subject(signal, words, account.unnamed), "said": _said(signal)}
            for signal in kept
        ],
        "tools": found.table.tools(),
        "left_out": [
            {"reason": reason, "count": count, "first": at} for reason, (count, at) in account.reasons.items()
        ],
        "notes": first
        + [f"{text}: {count}" for text, count in found.options.remarks.items()]
        + [_note(kind, *notes[kind]) for kind in notes if kind not in told],
    }


def _note(kind: str, count: int, first: str) -> str:
    return f"{kind}: {count} (first: {first})"


def _subject(signal: Signal, words: dict[str, str], unnamed: set[str]) -> str:
    """The task's id as its writer wrote it, with its first words, or the pattern of tools."""
    name = signal.task_id
    if name is None or name not in words:
        return subject(signal, {name: name} if name else {})
    said = f'"{one_line(words[name], WORDS)}"'
    return said if name in unnamed else f"{one_line(name, WORDS)} {said}"


def _said(signal: Signal) -> str:
    """The numbers behind a signal."""
    numbers = signal.evidence
    if signal.kind == "boundary":
        return f"{numbers['successes'][-1]} of {numbers['sizes'][-1]} solved"
    if signal.kind == "forgetting":
        visits = [
            f"{score:.2g} at step {step}" for score, (_, step) in zip(numbers["scores"], numbers["steps"], strict=True)
        ]
        able = [visit for visit, score in zip(visits, numbers["scores"], strict=True) if is_success(score)]
        return f"score {able[-1] if able else visits[0]}, {visits[-1]}"
    if signal.kind == "rare":
        return f"{numbers['count']} of {numbers['total']}"
    return f"0 of {numbers['episodes']} solved" if signal.kind == "unsolved" else f"strength {signal.strength:.2f}"


def lines(report: dict[str, Any], rollouts: Sequence[str]) -> list[str]:
    """The report in at most LINES lines. ``rollouts`` are the user's words for the files."""
    sections = [*(_section(kind, report) for kind in report["signals"]), _refused(report["tools"])]
    last = [*_left_out(report["left_out"]), *_notes(report["notes"]), _next(report, rollouts)]
    head = _head(report)
    free = LINES - len(head) - len(sections) - len(last)
    examples = Counter[int]()
    for row, (_, found) in [*enumerate(sections)] * SHOWN:  # an example of each, then a second of each
        if examples.total() < free and examples[row] < len(found):
            examples[row] += 1
    body = [
        [title, *(f"  {one_line(text)}" for text in found[: examples[row]])]
        for row, (title, found) in enumerate(sections)
    ]
    return [*head, *chain.from_iterable(body), *last]


def _head(report: dict[str, Any]) -> list[str]:
    formats = f" ({', '.join(report['formats'])})" if report["formats"] else ""
    first = f"{_many(report['rollouts'], 'rollout')} of {_tasks(report['tasks'], report)}{formats}"
    rewards = report["rewards"]
    if rewards["least"] is None:
        return [first, "rewards: none, so no task is solved or failed; only calls tell something"]
    common = rewards["common"]
    spread = ", ".join(f"{value['reward']:.3g} x {value['count']}" for value in common)
    if len(common) > 4:
        spread = f"{rewards['least']:.3g} to {rewards['most']:.3g}, mean {rewards['mean']:.2g}"
    partial = f", {rewards['partial']} of them with less than 1" if rewards["partial"] else ""
    least = f"at least {report['threshold']:g} (--threshold)"
    return [first, f"rewards: {spread}; {rewards['solved']} of {report['counted']} solved: {least}{partial}"]


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _tasks(count: int, report: dict[str, Any]) -> str:
    return _many(count, "prompt" if report["unnamed"] == report["tasks"] else "task")


def _section(kind: str, report: dict[str, Any]) -> tuple[str, list[str]]:
    """The title of a kind of signals, with the reason if there is none or if it may be false, and its examples."""
    title, count = TITLES.get(kind, kind), report["signals"][kind]
    found = [f"{one['subject']}: {one['said']}" for one in report["strongest"] if one["kind"] == kind]
    if kind == "rare":
        return f"{title}: {count}", found
    rewards, why = report["rewards"], ""
    if count:
        why = ", or several tasks that share a prompt" if report["unnamed"] == report["tasks"] else ""
    elif rewards["least"] == rewards["most"] is not None:
        why = f" (every reward is {rewards['most']:g})"
    elif kind == "forgetting" and report["visits"] == report["played"]:
        why = " (unknown: no task has rollouts of two training steps)"
    elif kind == "boundary" and report["visits"] == report["counted"]:
        why = " (unknown: no task has two rollouts in a step)"
    return f"{title}: {_tasks(count, report)}{why}", found


def _refused(tools: list[dict[str, Any]]) -> tuple[str, list[str]]:
    calls, refused = (sum(tool[key] for tool in tools) for key in ("calls", "refused"))
    found = [
        f"{one_line(tool['name'], WORDS)}: {tool['refused']} of {tool['calls']}{_example(tool['example'])}"
        for tool in tools[:SHOWN]
        if tool["refused"]
    ]
    return f"refused calls: {refused} of {calls}", found


def _example(text: str) -> str:
    return f', such as "{one_line(text, 100)}"' if text not in ("", NO_ANSWER) else ""


def _left_out(reasons: list[dict[str, Any]]) -> list[str]:
    if not reasons:
        return []
    most = max(reasons, key=lambda reason: reason["count"])
    others = f"; {len(reasons) - 1} other reasons with --json" if len(reasons) > 1 else ""
    total = sum(reason["count"] for reason in reasons)
    return [
        f"not understood: {_many(total, 'row')}; {most['count']} x {most['reason']} (first: {most['first']}){others}"
    ]


def _notes(notes: list[str]) -> list[str]:
    found = [one_line(note) for note in notes[:SHOWN]]
    if len(notes) > SHOWN:
        found[-1] += f"; {_many(len(notes) - SHOWN, 'more note')} with --json"
    return found


def _next(report: dict[str, Any], rollouts: Sequence[str]) -> str:
    if report["rewards"]["least"] is None:
        return "next: name files with rewards (Harbor's trials, a key `reward`), or set --score; then tasks can be compared"
    if report["rewards"]["partial"] and not any(count for kind, count in report["signals"].items() if kind != "rare"):
        return f"next: --threshold {report['rewards']['most']:g}, if only the full reward is a success"
    if not any(report["signals"].values()):
        return "next: let the agent play each task several times, at several steps; signals compare attempts"
    named = " ".join(map(shlex.quote, rollouts[:2])) + (" …" if len(rollouts) > 2 else "")
    return f"next: coevolve grow {one_line(named, WORDS)} --environment NAME --out grown   # new tasks there"
