"""Who is champion: the gate that a policy passes to take the alias, and the reason, written down either way."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coevolve.core.io import read_jsonl
from coevolve.core.outcomes import OUTCOMES, Outcome, paired_interval, solved
from coevolve.core.paths import Paths
from coevolve.core.seeding import derive_seed
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.report.config import Report

MOSTLY = 0.5  # of a task's episodes: with one, that it succeeds


@dataclass(frozen=True, slots=True)
class Challenge:
    """``gain`` with its interval, and how many of the tasks that the holder solves the challenger fails."""

    challenger: int
    holder: int
    gain: float
    low: float
    high: float
    lost: int
    taken: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Champion:
    """The best policy of a run on ``panel``, and every challenge that led to it."""

    panel: str
    policy: int
    challenges: list[Challenge]


@dataclass(frozen=True, slots=True)
class ChampionGate:
    """What a policy brings to challenge whoever holds the alias: 1 or 0 by task of a panel, and the rule."""

    digest: str  # of the policy
    panel: str
    scores: dict[str, float]
    max_regressions: float
    evaluate: Evaluate
    seed: int

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "evaluate": dict(self.evaluate)}


@dataclass(frozen=True, slots=True)
class Incumbent:
    """Who has the alias: the policy's hash, and the file of its outcomes if they are known."""

    name: str
    digest: str
    outcomes: Path | None


def champion(report: Report, evaluate: Evaluate, seed: int, last: int) -> Champion:
    """The policy of this run, 0 to ``last``, that is best on the frozen panel ``report.panel``."""
    found = [scores(Paths.evaluation(t) / OUTCOMES, report.panel) for t in range(last + 1)]
    names = [str(Paths.policy(t)) for t in range(last + 1)]
    holder, challenges = contest(found, evaluate, report.max_regressions, seed, names)
    return Champion(report.panel, holder, challenges)


def gate(holder: int, digest: str, report: Report, evaluate: Evaluate, seed: int) -> ChampionGate:
    """What policy ``holder`` of this run, whose hash is ``digest``, challenges for the alias with."""
    ours = scores(Paths.evaluation(holder) / OUTCOMES, report.panel)
    return ChampionGate(digest, report.panel, ours, report.max_regressions, evaluate, seed)


def promoted(gate: ChampionGate, holder: Incumbent | None, name: str) -> tuple[bool, str]:
    """Whether the challenger ``name`` takes the alias from ``holder``, and why or why not."""
    if holder is None:
        return True, "the first"
    if holder.digest == gate.digest:
        return True, f"the same policy as {holder.name}, the champion until now"
    base = scores(holder.outcomes, gate.panel) if holder.outcomes else {}
    if not set(base) & set(gate.scores):
        return True, f"{holder.name} was not measured on these tasks of {gate.panel}"
    both, names = [base, gate.scores], [holder.name, name]
    _, (challenge,) = contest(both, gate.evaluate, gate.max_regressions, gate.seed, names)
    return challenge.taken, challenge.reason


def scores(outcomes: Path, panel: str) -> dict[str, float]:
    """Success by task of ``panel``, from a file of outcomes."""
    return solved(read_jsonl(outcomes, Outcome), panel)


def contest(
    found: Sequence[Mapping[str, float]],
    config: Evaluate,
    max_regressions: float,
    seed: int,
    names: Sequence[str],
) -> tuple[int, list[Challenge]]:
    """Each policy in turn challenges the holder; the first holds at the start. ``found``: by policy, success by task. Solved is what succeeds
    in half of its episodes at least, and lost what then does not.

    It takes the alias if the whole interval of its gain, paired by task, is above 0, and if it fails at most
    ``max_regressions`` of the tasks that the holder solves. Who holds it at the end, and every challenge.
    """
    holder, history = 0, []
    for t in range(1, len(found)):
        base, challenger = found[holder], found[t]
        drawn = derive_seed(seed, "champion", holder, t)
        gain, low, high = paired_interval(base, challenger, config, drawn)
        mastered = [task for task, score in base.items() if score >= MOSTLY and task in challenger]
        lost = sum(challenger[task] < MOSTLY for task in mastered)
        share = lost / len(mastered) if mastered else 0.0
        taken = low > 0.0 and share <= max_regressions
        if taken:
            why = f"{names[t]} takes it from {names[holder]}"
        elif low <= 0.0:
            why = f"{names[holder]} keeps it from {names[t]}, whose gain is not surely positive"
        else:
            why = f"{names[holder]} keeps it from {names[t]}, which lost more than {max_regressions:.0%} of what was solved"
        figures = f"gain {gain:+.3f} ({low:+.3f} to {high:+.3f}), {lost} of {len(mastered)} solved tasks lost"
        history.append(Challenge(t, holder, gain, low, high, lost, taken, f"{why}: {figures}"))
        holder = t if taken else holder
    return holder, history
