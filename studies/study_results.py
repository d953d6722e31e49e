"""Results of a study, whose arms run over seeds: means, intervals, and differences paired by seed."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import Field

from coevolve.core.errors import CoevolveError
from coevolve.core.section import Section, Whole, load_yaml, validated
from coevolve.core.stage_summary import TASKS, TOKENS
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.stages.report.run_summary import Number, Summary
from coevolve.stages.report.write import success_chart, svg
from studies.claims import ERROR, Claim, estimate, judge

ADDED = "tasks added"  # from the first dataset to the last
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # of a study or an arm: parts of an experiment's name in DVC and git
OTHERS = "other tasks"  # the tasks of a panel that are in no subset
KEPT = "solved before"  # the tasks of a panel that policies/0 solves: what is missing to 1 are regressions
BEFORE = "before training"  # the comparison of every arm with policy 0 of the same run


class Study(Section):
    """A study.yaml. ``arms`` are changes to params.yaml by dotted key, in addition to the changes in ``common``.

    Other arms are compared with the arms in ``against``.

    ``subsets`` divide ``panel`` by tools: a subset holds the tasks whose reference uses one of its tools, and ``other tasks`` are the
    tasks in no subset. ``solved before`` are the tasks that policies/0 solves. ``claims`` are the hypotheses of the study, written
    before its runs. A study that has ``ended`` gets no more runs.
    """

    question: str
    seeds: Annotated[list[Whole], Field(min_length=1)]
    panel: str
    against: list[str]
    subsets: dict[str, list[str]] = Field(default_factory=dict)
    common: dict[str, Any] = Field(default_factory=dict)
    claims: list[Claim] = Field(default_factory=list)
    arms: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    ended: bool = False

    @property
    def parts(self) -> list[str]:
        """The names of the parts of ``panel`` that the function `cut` makes."""
        return [*self.subsets, OTHERS, KEPT] if self.subsets else []

    @property
    def cut(self) -> dict[str, Any]:
        """How `parts` come about; empty without subsets."""
        return {"panel": self.panel, "subsets": self.subsets} if self.subsets else {}


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run: the success of policies 0 to the last on each panel, and the figures of its stages.

    ``figures`` are those of the summary's table and budget, over all iterations; ``costs`` are the names in the budget. ``code`` is the
    commit of the run, and ``changes`` are all that it changed in the parameters of that commit. ``run`` is the hash of its datasets and
    policies (``run`` of its summary), ``tokens`` holds the tokens that the policy had generated in training before each of its versions,
    and ``cut`` is that of its study.
    """

    arm: str
    seed: int
    success: Mapping[str, Sequence[float]]
    figures: Mapping[str, Number]
    costs: Sequence[str]
    code: str = ""
    run: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    tokens: Sequence[Number] = ()
    cut: Mapping[str, Any] = field(default_factory=dict)


def load(path: Path) -> Study:
    """The study in ``path``. A mistake is one line that names the key."""
    raw = load_yaml(path, "name a folder with a study.yaml")
    try:
        study = validated(Study, raw, "study")
    except CoevolveError as error:
        raise CoevolveError(f"{path}: {error}") from None
    arms = {arm: {**study.common, **changes} for arm, changes in study.arms.items()}
    wrong = []
    claimed = [name for claim in study.claims for name in (claim.arm, claim.over) if name != BEFORE]
    if unknown := [name for name in (*study.against, *claimed) if name not in arms]:
        wrong.append(f"against, claims: no arm {', '.join(unknown)}; expected some of: {', '.join(arms)}")
    for name in (path.resolve().parent.name, *arms):
        if not NAME.fullmatch(name):
            wrong.append(f"{name!r} becomes part of an experiment's name; use letters, digits, - and _")
    asked = dict.fromkeys([study.panel, *(claim.panel for claim in study.claims)])
    for arm, changes in arms.items():
        wrong += [
            f"arms.{arm}: {key} is not for an arm: the study sets it"
            for key in changes
            if key.split(".")[0] in ("seed", "compute")
        ]
        played = changes.get("evaluate.panels")
        if played and (unseen := [name for name in asked if name not in (*played, *study.parts)]):
            wrong.append(f"arms.{arm}: evaluate.panels omits {', '.join(unseen)}, which the study needs")
    if wrong:
        raise CoevolveError(f"{path}: {wrong[0]}")
    return study.model_copy(update={"arms": arms})


def result(
    study: Study, run: tuple[str, int], summary: Summary, subsets: Mapping[str, Sequence[float]], code: str
) -> Result:
    """The result of a run, an arm and a seed, of the commit ``code``, with the success on ``subsets`` (see ``cut``)."""
    whole = {name: [policy[name].success for policy in summary.policies] for name in summary.panels}
    columns = {name: summary.total(name) for name in summary.columns if name != TASKS}
    return Result(
        arm=run[0],
        seed=run[1],
        success={**whole, **subsets},
        figures={ADDED: summary.tasks[-1] - summary.tasks[0], **columns, **summary.budget},
        costs=list(summary.budget),
        code=code,
        run=summary.run,
        changes=study.arms[run[0]],
        cut=study.cut,
        tokens=[summary.total(TOKENS, before=t) for t in range(summary.last + 1)],
    )


def cut(
    subsets: Mapping[str, Sequence[str]], tasks: Sequence[Task], outcomes: Sequence[Mapping[str, float]]
) -> dict[str, list[float]]:
    """The success of each policy on each subset of a panel, on OTHERS and on KEPT. ``outcomes`` holds, for each policy, the success by task."""
    used = {task.task_id: set(task.tools) for task in tasks}
    members = {name: [task for task, names in used.items() if names & set(tools)] for name, tools in subsets.items()}
    within = {task for found in members.values() for task in found}
    members[OTHERS] = [task for task in used if task not in within]
    members[KEPT] = [task for task in used if is_success(outcomes[0].get(task, 0.0))]
    return {
        name: [fmean(solved[task] for task in found if task in solved) for solved in outcomes]
        for name, found in members.items()
        if found
    }


def gains(results: Sequence[Result], arm: str, base: str, panel: str) -> list[float]:
    """The differences of the last policies' success between ``arm`` and ``base``, on the seeds that both have."""
    last = {(one.arm, one.seed): one.success[panel][-1] for one in results if panel in one.success}
    last |= {(BEFORE, one.seed): one.success[panel][0] for one in results if one.arm == arm and panel in one.success}
    return [last[arm, seed] - last[base, seed] for name, seed in last if name == arm and (base, seed) in last]


def report(study: Study, results: Sequence[Result]) -> str:
    """The text of table.md: means by arm and panel, claims, and paired differences."""
    arms = [name for name in study.arms if any(one.arm == name for one in results)]
    panels = _panels(results)
    costs = dict.fromkeys(name for one in results for name in one.costs)
    shown = [ADDED, *(name for name in costs if len({one.figures.get(name, 0) for one in results}) > 1)]
    base = [fmean(one.success[panel][0] for one in results if panel in one.success) for panel in panels]
    means = [[BEFORE, "", *(f"{one:.3f}" for one in base), *("" for _ in shown)]]
    for arm in arms:
        ours = [one for one in results if one.arm == arm]
        played = [[one.success[panel][-1] for one in ours if panel in one.success] for panel in panels]
        spent = [f"{fmean(one.figures.get(name, 0) for one in ours):,.0f}" for name in shown]
        means.append([arm, str(len(ours)), *(str(estimate(values)) if values else "" for values in played), *spent])
    lines = [f"# {study.question}", "", *_table(["arm", "seeds", *panels, *shown], means), ""]
    lines.append(
        "Success of the last policy, mean over seeds ± half the 95 % interval (Student's t). Costs that are equal in "
        "all runs are in results.jsonl."
    )
    if study.claims:
        verdicts = judge([(claim, gains(results, claim.arm, claim.over, claim.panel)) for claim in study.claims])
        lines += ["", *_table(["claim", "seeds", "difference, points", "p", ""], [one.row for one in verdicts]), ""]
        lines.append(f"p and intervals are corrected for {len(verdicts)} claims (Holm); p < {ERROR} is sure.")
        if missing := len(study.claims) - len(verdicts):
            lines.append(f"Claims with fewer than two seeds so far: {missing}.")
    others = [BEFORE, *study.against]
    for panel in [study.panel, *(name for name in study.parts if name in panels)]:
        pairs = [[gains(results, arm, other, panel) if arm != other else [] for other in others] for arm in arms]
        found = [[estimate(values) if values else None for values in row] for row in pairs]
        cells = [["" if one is None else f"{one.points}{'*' if one.sure else ''}" for one in row] for row in found]
        lines += [
            "",
            f"Differences on {panel}, in points, paired by seed; * is clear of zero, the others cannot be told apart:",
            "",
            *_table(
                ["arm", *(f"over {name}" for name in others)], [[a, *row] for a, row in zip(arms, cells, strict=True)]
            ),
        ]
    versions = ", ".join(f"{code} ({count} runs)" for code, count in Counter(one.code for one in results).most_common())
    return "\n".join([*lines, "", f"Code: {versions}. The hash of each run is in results.jsonl.", ""])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of Markdown."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def _panels(results: Sequence[Result]) -> list[str]:
    """Every panel, and every part of one, that a run has played."""
    return list(dict.fromkeys(panel for one in results for panel in one.success))


def draw(study: Study, results: Sequence[Result]) -> str:
    """A figure: success on ``study.panel`` by policy, with intervals over seeds."""
    points = []
    for arm in study.arms:
        runs = [one.success[study.panel] for one in results if one.arm == arm and study.panel in one.success]
        for t in range(min(map(len, runs), default=0)):
            values = [run[t] for run in runs]
            mean, half = fmean(values), estimate(values).half
            low, high = max(mean - half, 0.0), min(mean + half, 1.0)
            if len(values) < 3:  # Student's t would fill the figure: the range of the seeds
                low, high = min(values), max(values)
            points.append({"arm": arm, "policy": t, "success": mean, "low": low, "high": high})
    return svg(success_chart(points, f"success on {study.panel}", "arm"))
