"""A summary as the final table of a run, as DVC's metrics and plots, and as metrics for a tracker."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coevolve.core.outcomes import LISTED
from coevolve.core.stage_summary import ACCEPTED, TASKS, TOKENS
from coevolve.stages.report.run_summary import Number, Summary

if TYPE_CHECKING:
    from rich.table import Table


def table(summary: Summary) -> str:
    """The final table of a run. Row t shows dataset t and the success of policy t. A table by kind of task follows if they are few."""
    from rich.console import Console

    rows = []
    for t, panels in enumerate(summary.policies):
        loop = [number(summary.figure(name, t)) for name in summary.columns]
        success = [f"{metrics.success:.2f} ±{(metrics.high - metrics.low) / 2:.2f}" for metrics in panels.values()]
        rows.append([str(t), *loop, *success])
    columns = ["t", *summary.columns, *summary.panels]
    text = io.StringIO()
    console = Console(file=text, width=sum(len(name) + 12 for name in columns), color_system=None)
    console.print(text_table(f"coevolve on {summary.environment}", columns, rows))
    kinds = _kinds(summary)
    if 1 < len(kinds) <= LISTED:
        title = f"Success by kind of task, policies/0 and policies/{summary.last}"
        console.print(text_table(title, ["kind", *summary.panels], kinds))
    lines = [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]
    lines += [
        "",
        "Row t: dataset t, the signals found while training on it"
        + f", and the success of policy t on the frozen panels, ± half its {summary.confidence:.0%} interval over {summary.unit}"
        * bool(summary.panels),
        *([champion_line(summary)] if summary.panels else []),
        "Budget: " + ", ".join(f"{number(value)} {name}" for name, value in summary.budget.items()),
        *(f"Note: {note}" for note in summary.notes),
        f"Run {summary.run}, computed by {summary.arithmetic}",
        "See also: report/index.html, `coevolve ui` (MLflow), "
        "`dvc exp show --only-changed --drop '.*/.*' --keep 'success\\.'`",
    ]
    return "\n".join(lines)


def _kinds(summary: Summary) -> list[list[str]]:
    """A row for each kind of task: on each panel, the success of the first and of the last policy."""
    first, last = summary.policies[0], summary.policies[-1]
    names = dict.fromkeys(kind for metrics in last.values() for kind in metrics.kinds)

    def cell(panel: str, kind: str) -> str:
        return " → ".join(f"{one[panel].kinds[kind]:.2f}" for one in (first, last) if kind in one[panel].kinds) or "-"

    return [[kind, *(cell(panel, kind) for panel in summary.panels)] for kind in names]


def champion_line(summary: Summary) -> str:
    """The champion of the run, and why no later policy took its place."""
    holder = summary.champion
    return f"Champion on {holder.panel}: policies/{holder.policy}. {holder.challenges[-1].reason}"


def number(value: Number | None) -> str:
    """``value`` for people: counts whole, shares and money to two digits, a dash for None."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def curves(summary: Summary) -> dict[str, str]:
    """For each panel, the text of a CSV file: success with its interval, by iteration. DVC draws one plot per file."""
    files = {}
    for name in summary.panels:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["iteration", "success", "low", "high", TASKS])
        for t, panels in enumerate(summary.policies):
            writer.writerow([t, panels[name].success, panels[name].low, panels[name].high, summary.tasks[t]])
        files[name] = text.getvalue()
    return files


def training(iterations: Iterable[Iterable[Mapping[str, Any]]]) -> str:
    """The text of a CSV file: the metrics of training by step of the run, which has the steps of all ``iterations``."""
    rows = [{**row, "iteration": t} for t, steps in enumerate(iterations) for row in steps]
    columns = dict.fromkeys(["step", "iteration", "success", "score", "loss", *(name for row in rows for name in row)])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "step": step} for step, row in enumerate(rows))
    return text.getvalue()


def headline(summary: Summary) -> dict[str, Any]:
    """The few figures by which DVC compares experiments, the most important ones first."""
    first, last = summary.policies[0], summary.policies[-1]
    return {
        "success": {name: panel_metrics.success for name, panel_metrics in last.items()},
        "gain": {name: panel_metrics.success - first[name].success for name, panel_metrics in last.items()},
        "success_before": {name: panel_metrics.success for name, panel_metrics in first.items()},
        "accepted_tasks": summary.total(ACCEPTED),
        "training_tokens": summary.total(TOKENS),
        "run": summary.run,
    }


def totals(summary: Summary) -> dict[str, float]:
    """Metrics of the whole run for a tracker: its costs, and the gains of its last policy."""
    figures = {f"budget/{name}": float(value) for name, value in summary.budget.items()}
    figures.update({f"{name}/gain": value for name, value in headline(summary)["gain"].items()})
    return figures


def by_iteration(summary: Summary, seconds: Mapping[str, float]) -> list[dict[str, float]]:
    """Each policy's success, the size of each dataset, and the figures of the stages, by iteration.

    ``seconds`` are those of stages that ran here, which no file of a run holds.
    """
    figures = [
        {TASKS: float(size), **{f"{name}/success": panel_metrics.success for name, panel_metrics in panels.items()}}
        for size, panels in zip(summary.tasks, summary.policies, strict=True)
    ]
    for stage in summary.stages:
        row = figures[stage.iteration]
        row.update(
            {
                f"{stage.stage}/{name}": float(value)
                for name, value in stage.figures.items()
                if value is not None
                and name != stage.stage  # the figure `tasks` is there; a store of files refuses tasks/tasks
            }
        )
    for name, value in seconds.items():
        stage_name, _, t = name.partition("/")
        if t and int(t) < len(figures):
            figures[int(t)][f"seconds/{stage_name}"] = value
    return figures


def text_table(title: str, columns: Sequence[str], *sections: Iterable[Sequence[str]]) -> "Table":
    """A table with a line between its ``sections`` of rows. The first column holds names, the others numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for rows in sections:
        for row in rows:
            table.add_row(*row)
        table.add_section()
    return table
