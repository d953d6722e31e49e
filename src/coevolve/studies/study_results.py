"""Results of a study, whose arms run over seeds: means, intervals, and differences paired by seed."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Any

from pydantic import Field

from coevolve.core.charts import highlighted, intervals, svg
from coevolve.core.errors import CoevolveError
from coevolve.core.section import Section, Whole
from coevolve.core.stage_summary import TASKS, TOKENS
from coevolve.core.statistics import Estimate, estimate
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.yaml_files import load_yaml, validated
from coevolve.stages.report.run_summary import Number, Summary
from coevolve.studies.claims import Claim, flaw, judge
from coevolve.studies.claims import table as claim_table
from coevolve.studies.run_queue import keys, settable

ADDED = "tasks added"  # from the first dataset to the last
NAME = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
)  # of a study or an arm, which become part of an experiment's name in DVC and git
PLAYED = "evaluate.panels"
OTHERS = "other tasks"  # the tasks of a panel that are in no subset
KEPT = "solved before"  # the tasks of a panel that policies/0 solves: what is missing to 1 are regressions
SET = ("seed", "compute")  # what a study or its machine decides
BEFORE = "before training"  # the comparison of every arm with policy 0 of the same run


Curve = tuple[Sequence[float], Sequence[float]]  # tokens before each policy, and its success


class Study(Section):
    """A study.yaml. ``arms`` are changes to params.yaml by dotted key, in addition to the changes in ``common``.

    Other arms are compared with the arms in ``against``.

    ``subsets`` divide ``panel`` by tools: a subset holds the tasks whose reference uses one of its tools, and ``other tasks`` are the
    tasks in no subset. ``solved before`` are the tasks that policies/0 solves. ``claims`` are the hypotheses of the study, written
    before its runs.
    """

    question: str
    seeds: Annotated[list[Whole], Field(min_length=1)]
    panel: str
    against: list[str]
    subsets: dict[str, list[str]] = Field(default_factory=dict)
    common: dict[str, Any] = Field(default_factory=dict)
    claims: list[Claim] = Field(default_factory=list)
    arms: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]

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
    unknown = [name for name in study.against if name not in study.arms]
    if unknown:
        raise CoevolveError(
            f"{path}: against: {', '.join(unknown)}: no such arm; expected some of: {', '.join(study.arms)}"
        )
    if wrong := flaw(study.claims, study.arms, BEFORE):
        raise CoevolveError(f"{path}: {wrong}")
    for name in (path.resolve().parent.name, *study.arms):
        if not NAME.fullmatch(name):
            raise CoevolveError(f"{path}: {name!r} becomes part of an experiment's name; use letters, digits, - and _")
    for place, changes in {"common": study.common, **{f"arms.{arm}": one for arm, one in study.arms.items()}}.items():
        if isinstance(panels := changes.get(PLAYED), list) and (unseen := unplayed(study, panels)):
            raise CoevolveError(f"{path}: {place}: {PLAYED} omits {', '.join(unseen)}, which the study needs")
        for key, value in changes.items():
            if key.split(".")[0] in SET:
                raise CoevolveError(f"{path}: {place}: {key} is not for an arm: the study sets it for each run")
            if not key.isascii() or not all(map(str.isidentifier, key.split("."))):
                raise CoevolveError(f"{path}: {place}: {key!r} is not a key of params.yaml, such as train.steps")
            if odd := next((text for text in _texts([key, value]) if "${" in text or not text.isprintable()), None):
                raise CoevolveError(f"{path}: {place}: {odd!r} cannot be a text in params.yaml: DVC would change it")
            if names := [name for name in keys(value) if not settable(name)]:
                raise CoevolveError(
                    f"{path}: {place}: {key}: {names[0]!r} is not a key that DVC can set; use letters, digits, - and _"
                )
    return study.model_copy(update={"arms": {arm: {**study.common, **changes} for arm, changes in study.arms.items()}})


def unplayed(study: Study, panels: Sequence[str]) -> list[str]:
    """The panels that ``study`` needs but that are not in ``panels``, the panels that its runs play."""
    asked = dict.fromkeys([study.panel, *(claim.panel for claim in study.claims)])
    return [name for name in asked if name not in (*panels, *study.parts)]


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value of YAML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _texts(list(pair))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def result(
    arm: str,
    seed: int,
    summary: Summary,
    subsets: Mapping[str, Sequence[float]] | None = None,
    code: str = "",
    changes: Mapping[str, Any] | None = None,
    cut: Mapping[str, Any] | None = None,
) -> Result:
    """The result of a run of the commit ``code``, from its summary and the success on ``subsets`` (see ``cut``)."""
    whole = {name: [policy[name].success for policy in summary.policies] for name in summary.panels}
    columns = {name: summary.total(name) for name in summary.columns if name != TASKS}
    return Result(
        arm=arm,
        seed=seed,
        success={**whole, **(subsets or {})},
        figures={ADDED: summary.tasks[-1] - summary.tasks[0], **columns, **summary.budget},
        costs=list(summary.budget),
        code=code,
        run=summary.run,
        changes=changes or {},
        cut=cut or {},
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


def paired(results: Sequence[Result], arm: str, base: str, panel: str) -> Estimate | None:
    """The mean of ``gains``; None if no seed has both arms."""
    values = gains(results, arm, base, panel)
    return estimate(values) if values else None


def rows(results: Sequence[Result]) -> str:
    """The text of results.csv: a line for each run, panel and policy."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(dict.fromkeys(name for one in results for name in one.figures))
    writer.writerow(["arm", "seed", "panel", "policy", "success", *names, "code", "run"])
    for one in results:
        for panel, curve in one.success.items():
            for t, success in enumerate(curve):
                counted = [one.figures.get(name, "") for name in names]
                writer.writerow([one.arm, one.seed, panel, t, success, *counted, one.code, one.run])
    return text.getvalue()


def report(study: Study, results: Sequence[Result]) -> str:
    """The text of table.md: means by arm and panel, claims, paired differences, and tokens."""
    arms = [name for name in study.arms if any(one.arm == name for one in results)]
    panels = _panels(results)
    costs = dict.fromkeys(name for one in results for name in one.costs)
    shown = [ADDED, *(name for name in costs if len({one.figures.get(name, 0) for one in results}) > 1)]
    lines = [f"# {study.question}", "", f"| arm | seeds | {' | '.join([*panels, *shown])} |"]
    lines.append("|---" * (2 + len(panels) + len(shown)) + "|")
    base = [fmean(one.success[panel][0] for one in results if panel in one.success) for panel in panels]
    lines.append(f"| {BEFORE} | | {' | '.join(f'{one:.3f}' for one in base)} |{' |' * len(shown)}")
    for arm in arms:
        ours = [one for one in results if one.arm == arm]
        played = [[one.success[panel][-1] for one in ours if panel in one.success] for panel in panels]
        cells = [str(estimate(values)) if values else "" for values in played]
        cells += [f"{fmean(one.figures.get(name, 0) for one in ours):,.0f}" for name in shown]
        lines.append(f"| {arm} | {len(ours)} | {' | '.join(cells)} |")
    lines += [
        "",
        "Success of the last policy, mean over seeds ± half the 95 % interval (Student's t). Costs that are equal in",
    ]
    lines[-1] += " all runs are in results.csv."
    if study.claims:
        tested = [(claim, gains(results, claim.arm, claim.over, claim.panel)) for claim in study.claims]
        verdicts = judge(tested)
        lines += claim_table(verdicts, len(tested) - len(verdicts))
    compared = [study.panel, *(name for name in study.parts if name in panels)]
    for panel in compared:
        lines += _differences(study, results, arms, panel)
    if study.against:
        curves = {
            arm: {one.seed: (one.tokens, one.success[study.panel]) for one in results if one.arm == arm and one.tokens}
            for arm in arms
        }
        lines += tokens_table(curves, study.against[0], study.panel)
    versions = ", ".join(f"{code} ({count} runs)" for code, count in Counter(one.code for one in results).most_common())
    return "\n".join([*lines, "", f"Code: {versions}. The hash of each run is in results.csv.", ""])


def tokens_to(level: float, curve: Curve) -> float:
    """The tokens at which the success of ``curve`` first is ``level``, linear between policies; infinite if it never is."""
    tokens, success = curve
    if success[0] >= level:
        return float(tokens[0])
    for t in range(1, len(success)):
        if success[t] >= level:
            share = (level - success[t - 1]) / (success[t] - success[t - 1])
            return tokens[t - 1] + share * (tokens[t] - tokens[t - 1])
    return math.inf


def tokens_table(curves: Mapping[str, Mapping[int, Curve]], base: str, panel: str) -> list[str]:
    """Lines of Markdown: for each arm, the tokens until it is as good as ``base`` of the same seed at its end.

    ``curves`` holds arms, then seeds. A run that never gets there counts as infinite, so the median stays honest about it. No lines
    if no other arm shares a seed with ``base`` or no tokens were counted.
    """
    ends = {seed: (tokens[-1], success[-1]) for seed, (tokens, success) in curves.get(base, {}).items() if tokens[-1]}
    lines = []
    for arm, runs in curves.items():
        found = [tokens_to(ends[seed][1], curve) / ends[seed][0] for seed, curve in runs.items() if seed in ends]
        if found and arm != base:
            middle = median(found)
            share = f"{middle:.2f}" if math.isfinite(middle) else "more than it has"
            lines.append(f"| {arm} | {sum(map(math.isfinite, found))} of {len(found)} | {share} |")
    if not lines:
        return []
    words = f"Training tokens until an arm solves as much of {panel} as {base} of the same seed at its end, linear between policies:"
    return [
        "",
        words,
        "",
        f"| arm | runs that get there | median share of the tokens of {base} |",
        "|---|---|---|",
        *lines,
    ]


def _panels(results: Sequence[Result]) -> list[str]:
    """Every panel, and every part of one, that a run has played."""
    return list(dict.fromkeys(panel for one in results for panel in one.success))


def _differences(study: Study, results: Sequence[Result], arms: Sequence[str], panel: str) -> list[str]:
    """A table of ``arms`` against the study's comparisons."""
    others = [BEFORE, *study.against]
    lines = [
        "",
        f"Differences on {panel}, in points, paired by seed; * is clear of zero, the others cannot be told apart:",
        "",
    ]
    lines.append(f"| arm | {' | '.join(f'over {name}' for name in others)} |")
    lines.append("|---" * (len(others) + 1) + "|")
    for arm in arms:
        cells = []
        for other in others:
            gain = paired(results, arm, other, panel) if arm != other else None
            cells.append("" if gain is None else f"{gain.points}{'*' if gain.sure else ''}")
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return lines


def draw(study: Study, results: Sequence[Result]) -> dict[str, str]:
    """Figures by name, with bands over seeds: success on ``study.panel`` by policy and by tokens generated in training, and
    success of the last policy on every panel."""
    lines, last = [], []
    for arm in study.arms:
        found = [one for one in results if one.arm == arm]
        for panel in _panels(found):
            curves = [one.success[panel] for one in found if panel in one.success]
            points = [
                {
                    "arm": arm,
                    "policy": t,
                    # of a run without this figure: 0
                    TOKENS: fmean([one.tokens[t] for one in found if len(one.tokens) > t] or [0]),
                    "panel": panel,
                    **_band([curve[t] for curve in curves]),
                }
                for t in range(min(map(len, curves)))
            ]
            last.append({**points[-1], "start": points[0]["success"]})
            lines += points if panel == study.panel else []
    panels = _panels(results)
    title = f"success on {study.panel}"
    spent = any(row[TOKENS] for row in lines)
    return {
        "curves.svg": svg(highlighted(lines, title, "arm")),
        **({"tokens.svg": svg(highlighted(lines, title, "arm", against=TOKENS))} if spent else {}),
        "arms.svg": svg(intervals(last, "success", "arm", panels)),
    }


def _band(values: Sequence[float]) -> dict[str, float]:
    """The mean with its 95 % interval; with fewer than three values with their range, as Student's t would fill the figure."""
    one = estimate(values)
    if len(values) < 3:
        return {"success": one.mean, "low": min(values), "high": max(values)}
    return {"success": one.mean, "low": max(one.mean - one.half, 0.0), "high": min(one.mean + one.half, 1.0)}
