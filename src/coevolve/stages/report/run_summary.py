"""The summary of a run: the merged summaries of its stages, notes, and the champion. It reads only files."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coevolve.core.champion import Champion, ChampionRule, champion
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import parse, read_json
from coevolve.core.outcomes import PanelMetrics
from coevolve.core.paths import Paths
from coevolve.core.pipeline import Iteration, steps
from coevolve.core.stage_summary import TASKS, StageSummary
from coevolve.core.statistics import unit
from coevolve.core.task import SCHEMA_VERSION

ALMOST_NOTHING = 0.05  # success below which a note says that the policy solves almost nothing

SUMMARY = Paths.report / "summary.json"
METRICS = Paths.report / "metrics.json"  # what DVC shows of a run
UNKNOWN = "unknown"
VARYING = re.compile(r"\d[\d.,]*|; the first: .*")  # what differs between notes of one cause

Number = int | float


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of SUMMARY.

    ``run`` is a hash of the datasets and policies. ``policies`` holds each policy's metrics on the panels, ``stages`` the
    summaries of the stages in the order of the graph, and ``budget`` their total costs. ``arithmetic`` names the
    arithmetic of the computations. ``notes`` are messages that need attention. A run that trains no policy has no panels.
    """

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
        """The number of the last policy and dataset."""
        return len(self.policies) - 1

    @property
    def panels(self) -> list[str]:
        return list(self.policies[0])

    @property
    def unit(self) -> str:
        """What the intervals of the panels are over, in words."""
        return " or ".join(dict.fromkeys(unit(len(metrics.kinds)) for metrics in self.policies[-1].values()))

    @property
    def columns(self) -> list[str]:
        """The figures in the table, in the order of the stages that first name them."""
        return list(dict.fromkeys(name for stage in self.stages for name in stage.columns))

    def figure(self, name: str, t: int) -> Number | None:
        """A column's figure in iteration ``t``; None if no stage has it."""
        figures = (stage.figures[name] for stage in self.stages if stage.iteration == t and name in stage.columns)
        return next(figures, None)

    def total(self, name: str, before: int | None = None) -> Number:
        """The sum of a count, or the mean of a share, over the iterations before ``before`` (by default all)."""
        figures = [
            stage.figures[name]
            for stage in self.stages
            if name in (*stage.columns, *stage.costs) and (before is None or stage.iteration < before)
        ]
        values = [value for value in figures if value is not None]
        return sum(values) if all(isinstance(value, int) for value in values) else sum(values) / len(values)

    @property
    def tasks(self) -> list[Number]:
        """The number of tasks in each dataset."""
        return [self.figure(TASKS, t) or 0 for t in range(self.last + 1)]


def run_hash(last: int) -> str:
    """Hash of all datasets and policies up to ``last``. Runs with equal results have equal hashes."""
    policies = [[policy_hash(path)] if (path := Paths.policy(t)).is_dir() else [] for t in range(last + 1)]
    hashes = [[file_hash(Paths.tasks(t)), *policies[t]] for t in range(last + 1)]
    return content_hash(hashes)


def summarize(
    run: str, environment: str, iterations: Sequence[Iteration], rule: ChampionRule, trains: bool = True
) -> Summary:
    """The summary of the run in this folder, which ``trains`` policies or not."""
    last = iterations[-1].next
    policies: list[dict[str, PanelMetrics]] = [{} for _ in range(last + 1)]
    for t in range(last + 1) if trains else ():
        path = Paths.evaluation(t) / "metrics.json"
        policies[t] = {name: parse(PanelMetrics, values, f"{path}: {name}") for name, values in read_json(path).items()}
    stages = _summaries(iterations)
    return Summary(
        run=run,
        environment=environment,
        seed=rule.seed,
        confidence=rule.confidence,
        champion=champion(rule, last) if trains else Champion(rule.panel, 0, []),
        budget=_budget(stages),
        arithmetic="; ".join(dict.fromkeys(stage.arithmetic for stage in stages if stage.arithmetic)) or UNKNOWN,
        notes=[*_weak(policies), *_notes(stages)],
        policies=policies,
        stages=stages,
    )


def _summaries(iterations: Sequence[Iteration]) -> list[StageSummary]:
    """The existing summaries of the current graph, stage by stage, each by iteration. Other files come from earlier graphs."""
    outs = (Path(out) for step in steps(iterations) for out in step.outs)
    files = [path for path in outs if path.parent.name == "summary"]
    order = {path.stem: number for number, path in enumerate(files)}  # position of a stage's last step in the graph
    stages = []
    for path in files:
        if path.exists():
            stages.append(parse(StageSummary, read_json(path), str(path)))
            if stages[-1].stage != path.stem:
                raise CoevolveError(
                    f"{path}: stage is {stages[-1].stage!r}, expected {path.stem!r}; run the stage again"
                )
    return sorted(stages, key=lambda summary: (order[summary.stage], summary.iteration))


def _budget(stages: Sequence[StageSummary]) -> dict[str, Number]:
    """The total costs of the run, such as steps, rollouts and evaluations, to compare arms at equal cost."""
    budget: dict[str, Number] = {}
    for stage in stages:
        for name in stage.costs:
            budget[name] = budget.get(name, 0) + (stage.figures[name] or 0)
    return budget


def _notes(stages: Iterable[StageSummary]) -> list[str]:
    """The notes of the stages, one line for each cause: the words of its last iteration, and the numbers of the others."""
    causes: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for stage in stages:
        for note in stage.notes:
            causes[stage.stage, VARYING.sub("", note)][stage.iteration] = note
    notes = []
    for (name, _), by_iteration in causes.items():
        *earlier, last = by_iteration
        also = f" (also {', '.join(map(str, earlier))})" if earlier else ""
        subject = f"Evaluation of policies/{last}" if name == "evaluate" else f"Iteration {last}"
        notes.append(f"{subject}{also}: {by_iteration[last]}.")
    return notes


def _weak(policies: Sequence[dict[str, PanelMetrics]]) -> list[str]:
    best = {name: max(policy[name].success for policy in policies) for name in policies[0]}
    weak = [name for name, success in best.items() if success < ALMOST_NOTHING]
    return [
        f"The policy solves almost nothing of {', '.join(weak)} (under {ALMOST_NOTHING:.0%} at every iteration): "
        "read these runs for the machinery, not for the agent."
    ] * bool(weak)
