"""The report page, self-contained, so that it needs no network; kinds of signals and new tasks with their lineage as values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from coevolve.core.records import Generation, Signal
from coevolve.core.task import Task
from coevolve.core.terminal import plain
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.report.page.reader import alternating
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.signals.strongest import subject

PAGE = "coevolve.stages.report.page"
GENERATOR, UNGUIDED = "the generator", "no signal"
NEW = 10  # most new tasks per iteration to show


def html_page(template: str, **values: Any) -> str:
    """The page of a ``template``. All ``values`` are escaped, unless the template says `safe`."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader(PAGE, "")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.finalize = lambda value: plain(value) if type(value) is str else value  # a model may write control characters
    style = (files(PAGE) / "page.css").read_text(encoding="utf-8")
    return pages.get_template(template).render(**values, style=style)


def strength(summary: Summary) -> list[str]:
    """The kinds of signals, the strongest first, as in the summaries of stage `signals`."""
    return list(dict.fromkeys(kind for stage in summary.stages if stage.stage == "signals" for kind in stage.columns))


def added(
    tasks: Sequence[Task],
    following: Sequence[Task],
    signals: Sequence[Signal],
    specs: Sequence[Generation],
    links: Mapping[str, str],
) -> dict[str, Any]:
    """The tasks that an iteration added: their numbers by origin, new families, and up to ``NEW`` with their lineage.

    ``tasks`` and ``following`` are the datasets before and after it. A task's origin is the kind of its first signal,
    or the task generator. The tasks with lineage alternate between origins. ``links`` holds the page's anchors of
    trajectories by id.
    """
    words = {task.task_id: " / ".join(task.turns) for task in tasks}
    by_id = {signal.signal_id: signal for signal in signals}
    generated = {exploration_of(spec) for spec in specs}

    def row(task: Task) -> dict[str, Any]:
        source = task.provenance
        causes = [by_id[name] for name in source.signal_ids if name in by_id] if source else []
        guide = GENERATOR if source and source.exploration_id in generated else UNGUIDED
        return {
            "task": task,
            "origin": causes[0].kind if causes else guide,
            "about": subject(causes[0], words) if causes else "",
            "link": next((links[name] for one in causes for name in one.trajectory_ids if name in links), None),
            "rate": source.pass_rate if source else None,
        }

    new = [row(task) for task in following if task.task_id not in words]
    return {
        "tasks": len(new),
        "families": len({one["task"].family for one in new} - {task.family for task in tasks}),
        "origins": Counter(one["origin"] for one in new).most_common(),
        "shown": alternating(new, lambda one: one["origin"])[:NEW],
    }
