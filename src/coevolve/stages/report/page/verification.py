"""The report page's values about verification, quarantine and watchdogs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from coevolve.core.io import read_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Gate, Verdict
from coevolve.stages.validate.indicators import Indicator
from coevolve.stages.verify.select import GATE

REASONS = 3  # most examples of a gate's reasons


def read_verdicts(t: int) -> list[Verdict]:
    file = Paths.verified(t) / "verdicts.jsonl"
    return read_jsonl(file, Verdict) if file.exists() else []


def outcomes(t: int, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The numbers of candidates of iteration ``t`` that were accepted and that each gate rejected, with some reasons."""
    accepted: dict[str, Any] = {
        "t": t,
        "gate": None,
        "candidates": sum(verdict.accepted for verdict in verdicts),
        "reasons": [],
    }
    failed = (gate for verdict in verdicts for gate in verdict.gates if gate.passed is False)
    return [accepted, *_by_gate(t, failed)] if verdicts else []


def unchecked(t: int, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The numbers of accepted candidates of iteration ``t`` that each gate could not check, with some reasons."""
    return _by_gate(t, (gate for verdict in verdicts for gate in verdict.unchecked))


def _by_gate(t: int, gates: Iterable[Gate]) -> list[dict[str, Any]]:
    reasons: dict[str, list[str]] = defaultdict(list)
    for gate in gates:
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
    """For each indicator, the latest one, and those of the iterations before ``last``."""
    files = [Paths.indicators(t) for t in range(last) if Paths.indicators(t).exists()]
    watched = [{one.name: one for one in read_jsonl(file, Indicator)} for file in files]
    rows = []
    for name in dict.fromkeys(name for indicators in watched for name in indicators):
        values = [indicators.get(name) for indicators in watched]
        rows.append({"name": name, "latest": [one for one in values if one][-1], "values": values})
    return rows
