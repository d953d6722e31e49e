"""The report page's values about verification, quarantine and watchdogs."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.io import read_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Verdict
from coevolve.stages.verify.select import GATE
from coevolve.stages.watch.watchdogs import read_indicators

REASONS = 3  # most examples of a gate's reasons


def read_verdicts(t: int) -> list[Verdict]:
    file = Paths.verified(t) / "verdicts.jsonl"
    return read_jsonl(file, Verdict) if file.exists() else []


def outcomes(t: int, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The numbers of candidates of iteration ``t`` that were accepted and that each gate rejected, with some reasons."""
    reasons_by_gate: dict[str, list[str]] = defaultdict(list)
    for verdict in verdicts:
        for gate in verdict.gates:
            if gate.passed is False:
                reasons_by_gate[gate.name].append(gate.reason)
    rejected = sorted(reasons_by_gate.items(), key=lambda item: (-len(item[1]), item[0]))
    rows: list[tuple[str | None, int, list[str]]] = [(None, sum(verdict.accepted for verdict in verdicts), [])]
    rows += [(name, len(reasons), list(dict.fromkeys(reasons))[:REASONS]) for name, reasons in rejected]
    return [
        {"t": t, "gate": gate, "candidates": count, "reasons": reasons} for gate, count, reasons in rows if verdicts
    ]


def unchecked(t: int, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The numbers of accepted candidates of iteration ``t`` that each gate could not check, with some reasons."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for gate in (gate for verdict in verdicts for gate in verdict.unchecked):
        reasons[gate.name].append(gate.reason)
    return [
        {"t": t, "gate": name, "candidates": len(given), "reasons": list(dict.fromkeys(given))[:REASONS]}
        for name, given in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def selection(t: int, verdicts: Sequence[Verdict]) -> dict[str, Any] | None:
    """The candidates of iteration ``t`` that passed every other gate, and how many were kept. None without a selection.

    ``left_out`` counts the others by how often the agent solves them, as the words "always", "never" and "sometimes".
    """
    passed = [verdict for verdict in verdicts if any(gate.name == GATE for gate in verdict.gates)]
    if not passed:
        return None
    frequencies = {0.0: "never", 1.0: "always", None: "an unknown number of times"}
    counts = Counter(frequencies.get(verdict.pass_rate, "sometimes") for verdict in passed if not verdict.accepted)
    names = [name for name in ("never", "sometimes", "always", frequencies[None]) if counts[name]]
    return {
        "t": t,
        "candidates": len(verdicts),
        "passed": len(passed),
        "kept": sum(verdict.accepted for verdict in passed),
        "left_out": [(name, counts[name]) for name in names],
    }


def measured(last: int) -> list[dict[str, Any]]:
    """The watchdogs' indicators of each iteration before ``last``. An indicator without a value is left out."""
    return [
        {"t": t, "name": indicator.name, **indicator.as_dict()}
        for t in range(last)
        if Paths.watch(t).exists()
        for indicator in read_indicators(Paths.watch(t))
        if indicator.value is not None
    ]


def by_indicator(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """``measured`` with one row per indicator: its latest limits, and its value and state in each iteration, or None."""
    ts = range(max((row["t"] for row in rows), default=-1) + 1)
    names = dict.fromkeys(row["name"] for row in rows)
    indicators: dict[str, dict[int, Mapping[str, Any]]] = {name: {} for name in names}
    for row in rows:
        indicators[row["name"]][row["t"]] = row
    return [
        {"name": name, "latest": by_t[max(by_t)], "values": [by_t.get(t) for t in ts]}
        for name, by_t in indicators.items()
    ]
