"""What came of a run: what its stages say, merged, what needs a look, and who is champion. Reads files alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import parse, read_json
from coevolve.core.outcomes import PanelMetrics
from coevolve.core.paths import Paths
from coevolve.core.pipeline import Iteration
from coevolve.core.stage_summary import TASKS, StageSummary
from coevolve.core.task import SCHEMA_VERSION
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.report.champion import Champion, champion
from coevolve.stages.report.config import Report
from coevolve.stages.report.graph import summaries

ALMOST_NOTHING = 0.05  # success below which a policy is said to solve almost nothing

SUMMARY = Paths.report / "summary.json"
UNKNOWN = "unknown"

Number = int | float


@dataclass(frozen=True, slots=True)
class Summary:
    """What SUMMARY holds. ``run`` is a hash of its datasets and policies, ``policies`` are, by policy, what each does on the
    panels, ``stages`` what the stages say, in the order of the graph, ``budget`` what they took together, ``arithmetic`` by
    which they computed, ``notes`` what needs a look."""

    run: str
    environment: str
    seed: int
    confidence: float
    champion: Champion
    budget: dict[str, Number]
    arithmetic: str = UNKNOWN
    notes: list[str] = field(default_factory=list)
    policies: list[dict[str, PanelMetrics]] = field(default_factory=list)
    stages: list[StageSummary] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION

    @property
    def last(self) -> int:
        """The last policy, and dataset."""
        return len(self.policies) - 1

    @property
    def panels(self) -> list[str]:
        return list(self.policies[0])

    @property
    def columns(self) -> list[str]:
        """Figures that stand in the table, in the order of the stages that name them first."""
        return list(dict.fromkeys(name for stage in self.stages for name in stage.columns))

    def figure(self, name: str, t: int) -> Number | None:
        """A column's figure in iteration ``t``; None where no stage has it."""
        found = (one.figures[name] for one in self.stages if one.iteration == t and name in one.columns)
        return next(found, None)

    def total(self, name: str, before: int | None = None) -> Number:
        """Of a column or cost, in the iterations before ``before``: counts are added up, of shares it is the mean."""
        found = [
            one.figures[name]
            for one in self.stages
            if name in (*one.columns, *one.costs) and (before is None or one.iteration < before)
        ]
        known = [value for value in found if value is not None]
        return sum(known) if all(isinstance(one, int) for one in known) else sum(known) / len(known)

    @property
    def tasks(self) -> list[Number]:
        """How many there are in each dataset."""
        return [self.figure(TASKS, t) or 0 for t in range(self.last + 1)]


def run_hash(last: int) -> str:
    """Of all datasets and policies, up to ``last``: two runs that made the same have the same."""
    made = [[file_hash(Paths.tasks(t)), policy_hash(Paths.policy(t))] for t in range(last + 1)]
    return content_hash(made)


def summarize(
    run: str, environment: str, seed: int, iterations: Sequence[Iteration], report: Report, evaluate: Evaluate
) -> Summary:
    """The summary of the run whose files lie here."""
    last = iterations[-1].next
    files = [Paths.evaluation(t) / "metrics.json" for t in range(last + 1)]
    policies = [
        {name: parse(PanelMetrics, one, f"{path}: {name}") for name, one in read_json(path).items()} for path in files
    ]
    stages = summaries(iterations)
    return Summary(
        run=run,
        environment=environment,
        seed=seed,
        confidence=evaluate.confidence,
        champion=champion(report, evaluate, seed, last),
        budget=_budget(stages),
        arithmetic="; ".join(dict.fromkeys(one.arithmetic for one in stages if one.arithmetic)) or UNKNOWN,
        notes=[*_weak(policies), *(f"Iteration {one.iteration}: {note}." for one in stages for note in one.notes)],
        policies=policies,
        stages=stages,
    )


def _budget(stages: Sequence[StageSummary]) -> dict[str, Number]:
    """What the run took, so that arms can be compared: the same steps, rollouts and evaluations."""
    found: dict[str, Number] = {}
    for stage in stages:
        for name in stage.costs:
            found[name] = found.get(name, 0) + (stage.figures[name] or 0)
    return found


def _weak(policies: Sequence[dict[str, PanelMetrics]]) -> list[str]:
    best = {name: max(one[name].success for one in policies) for name in policies[0]}
    weak = [name for name, success in best.items() if success < ALMOST_NOTHING]
    return [
        f"The policy solves almost nothing of {', '.join(weak)} (under {ALMOST_NOTHING:.0%} at every iteration): "
        "read these runs for the machinery, not for the agent."
    ] * bool(weak)
