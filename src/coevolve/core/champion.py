"""The champion: the gate that a policy must pass to take the alias, with the reason for either result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coevolve.core.io import read_jsonl
from coevolve.core.outcomes import OUTCOMES, Outcome, kinds_of, paired_interval, solved
from coevolve.core.paths import Paths
from coevolve.core.seeding import derive_seed

MOSTLY = 0.5  # share of successful episodes from which a task counts as solved


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge: ``gain`` with its interval, and ``lost``, the number of the holder's tasks that the challenger fails."""

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
    """The best policy of a run on ``panel``, and every challenge on the way."""

    panel: str
    policy: int
    challenges: list[Challenge]


@dataclass(frozen=True, slots=True)
class ChampionRule:
    """The rule of the gate: the panel, the share of solved tasks that may be lost, and the interval of the gain.

    Its values are those of ``report.panel``, ``report.max_regressions``, ``evaluate.bootstrap``, ``evaluate.confidence``
    and ``seed``.
    """

    panel: str
    max_regressions: float
    bootstrap: int
    confidence: float
    seed: int


@dataclass(frozen=True, slots=True)
class ChampionGate:
    """A policy's challenge for the alias: its success by task of the rule's panel, and each task's kind. ``digest`` is the policy's."""

    digest: str
    scores: dict[str, float]
    rule: ChampionRule
    kinds: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The holder of the alias: the policy's hash, and the file of its outcomes if they are known."""

    name: str
    digest: str
    outcomes: Path | None


def champion(rule: ChampionRule, last: int) -> Champion:
    """The best policy of this run, 0 to ``last``, on the rule's frozen panel."""
    played = [read_jsonl(Paths.evaluation(t) / OUTCOMES, Outcome) for t in range(last + 1)]
    names = [str(Paths.policy(t)) for t in range(last + 1)]
    successes = [solved(outcomes, rule.panel) for outcomes in played]
    holder, challenges = contest(successes, rule, names, kinds_of(played[last]))
    return Champion(rule.panel, holder, challenges)


def promoted(gate: ChampionGate, holder: Incumbent | None, name: str) -> tuple[bool, str]:
    """Whether the challenger ``name`` takes the alias from ``holder``, and the reason."""
    if holder is None:
        return True, "the first"
    if holder.digest == gate.digest:
        return True, f"the same policy as {holder.name}, the champion until now"
    base = solved(read_jsonl(holder.outcomes, Outcome), gate.rule.panel) if holder.outcomes else {}
    if not set(base) & set(gate.scores):
        return True, f"{holder.name} was not measured on these tasks of {gate.rule.panel}"
    successes, names = [base, gate.scores], [holder.name, name]
    _, (challenge,) = contest(successes, gate.rule, names, gate.kinds)
    return challenge.taken, challenge.reason


def challenge(digest: str, outcomes: Path, rule: ChampionRule) -> ChampionGate:
    """The challenge of the policy ``digest`` with a file of its outcomes."""
    played = [one for one in read_jsonl(outcomes, Outcome) if one.panel == rule.panel]
    return ChampionGate(digest, solved(played, rule.panel), rule, kinds_of(played))


def contest(
    successes: Sequence[Mapping[str, float]], rule: ChampionRule, names: Sequence[str], kinds: Mapping[str, str]
) -> tuple[int, list[Challenge]]:
    """Let each policy challenge the holder, starting with policy 0. Returns the final holder and every challenge.

    ``successes`` holds, for each policy, the success by task, and ``kinds`` the kind of each task. A task is solved if at least half
    of its episodes succeed, and lost if the holder solves it and the challenger does not. The challenger wins if the whole
    interval of its gain, paired by task, is above 0, and if it loses at most the share ``rule.max_regressions`` of the holder's
    solved tasks.
    """
    holder, history = 0, []
    for t in range(1, len(successes)):
        base, challenger = successes[holder], successes[t]
        bootstrap_seed = derive_seed(rule.seed, "champion", holder, t)
        gain, low, high = paired_interval(base, challenger, rule, bootstrap_seed, kinds)
        mastered = [task for task, score in base.items() if score >= MOSTLY and task in challenger]
        lost = sum(challenger[task] < MOSTLY for task in mastered)
        share = lost / len(mastered) if mastered else 0.0
        taken = low > 0.0 and share <= rule.max_regressions
        if taken:
            decision = f"{names[t]} replaces {names[holder]}"
        elif low <= 0.0:
            decision = f"{names[holder]} stays, as {names[t]} has no certain gain"
        else:
            decision = (
                f"{names[holder]} stays, as {names[t]} lost more than {rule.max_regressions:.0%} of the solved tasks"
            )
        figures = f"gain {gain:+.3f} ({low:+.3f} to {high:+.3f}), {lost} of {len(mastered)} solved tasks lost"
        history.append(Challenge(t, holder, gain, low, high, lost, taken, f"{decision}: {figures}"))
        holder = t if taken else holder
    return holder, history
