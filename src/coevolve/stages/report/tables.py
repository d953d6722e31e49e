"""A summary as the table that ends a run, as curve.csv, and as a tracker's metrics."""

import csv
import io
from collections.abc import Mapping

from coevolve.core.stage_summary import ACCEPTED, TASKS
from coevolve.stages.report.summary import Number, Summary


def table(summary: Summary) -> str:
    """The table that ends a run. Row t: the data that policy t was trained up to, and what it can do."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, title=f"coevolve on {summary.environment}", title_justify="left")
    for name in ("t", *summary.columns, *summary.panels):
        shown.add_column(name, justify="right", no_wrap=True)
    for t, panels in enumerate(summary.policies):
        loop = [number(summary.figure(name, t)) for name in summary.columns]
        success = [f"{one.success:.2f} ±{(one.high - one.low) / 2:.2f}" for one in panels.values()]
        shown.add_row(str(t), *loop, *success)
    text = io.StringIO()
    Console(
        file=text, width=sum(len(name) + 12 for name in (*summary.columns, *summary.panels)), color_system=None
    ).print(shown)
    holder = summary.champion
    lines = [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]
    lines.append("")
    lines.append(
        "Row t: dataset t, the signals found while training on it, and the success of policy t on the frozen panels, "
        f"± half its {summary.confidence:.0%} interval"
    )
    lines.append(f"Champion on {holder.panel}: policies/{holder.policy}. {holder.challenges[-1].reason}")
    lines.append("Budget: " + ", ".join(f"{number(value)} {name}" for name, value in summary.budget.items()))
    lines.extend(_bill(summary))
    lines.extend(summary.notes)
    lines.append(f"Run {summary.run}, computed by {summary.arithmetic}")
    lines.append("Look on: `make ui` (MLflow), report/index.html, data/*/validation/report.md, `dvc exp show`")
    return "\n".join(lines)


def number(value: Number | None) -> str:
    """As people read it: counts whole, shares and money to two digits, and a dash for what there is not."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def per_task(summary: Summary) -> dict[str, float]:
    """What an accepted task cost at endpoints; empty where nothing was asked, or accepted."""
    accepted = summary.total(ACCEPTED)
    asked = {name: value for name, value in summary.budget.items() if name.startswith("endpoint ")}
    if not asked or not accepted:
        return {}
    tokens = sum(value for name, value in asked.items() if name.endswith("tokens"))
    return {"endpoint tokens": tokens / accepted, "endpoint dollars": asked["endpoint dollars"] / accepted}


def _bill(summary: Summary) -> list[str]:
    found = per_task(summary)
    if not found:
        return []
    tokens, dollars = found.values()
    paid = f", ${dollars:.4f}" if dollars else ""
    return [f"Asked of endpoints: {tokens:,.0f} tokens{paid} for each accepted task"]


def curve(summary: Summary) -> str:
    """curve.csv: success with its interval, by iteration and panel."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["iteration", "panel", "success", "low", "high", "tasks"])
    for t, panels in enumerate(summary.policies):
        for name, one in panels.items():
            writer.writerow([t, name, one.success, one.low, one.high, summary.tasks[t]])
    return text.getvalue()


def metrics(summary: Summary) -> dict[str, float]:
    """Of the whole run: its last policy's success and gain over the first, its last dataset, and what it took."""
    first, last = summary.policies[0], summary.policies[-1]
    found = {TASKS: float(summary.tasks[-1])}
    found.update({f"budget/{name}": float(value) for name, value in summary.budget.items()})
    found.update({f"accepted task/{name}": value for name, value in per_task(summary).items()})
    for name, one in last.items():
        found[f"{name}/success"] = one.success
        found[f"{name}/gain"] = one.success - first[name].success
    return found


def by_iteration(summary: Summary, seconds: Mapping[str, float]) -> list[dict[str, float]]:
    """What the stages say of each iteration, and the ``seconds`` of those that ran here, which are in no file of a run."""
    found: list[dict[str, float]] = [{} for _ in summary.policies]
    for one in summary.stages:
        place = found[one.iteration]
        place.update({f"{one.stage}/{name}": float(value) for name, value in one.figures.items() if value is not None})
    for name, value in seconds.items():
        stage, _, t = name.partition("/")
        if t and int(t) < len(found):
            found[int(t)][f"seconds/{stage}"] = value
    return found
