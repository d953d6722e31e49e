"""Stage `validate`: check iteration t, and the next dataset, which is the old one plus the accepted tasks, with Great Expectations.

It omits tasks that a reviewer rejects. Writes data/next/tasks.jsonl, data/next/validation/quarantine.jsonl,
data/t/indicators.jsonl, and Data Docs in data/next/data_docs. If an indicator or the dataset passes a critical limit
of section `validate` of params.yaml, the pipeline stops after these pages are written, before the next iteration trains on it.
"""

import shutil
from dataclasses import dataclass
from typing import Any, Literal

from coevolve.core.attempts import read_visits
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_json, read_jsonl, read_jsonl_objects, read_jsonl_values, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Verdict
from coevolve.core.stage_summary import TASKS, StageSummary, write_summary
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.schema import Params
from coevolve.stages.validate.indicators import STEP_KEYS, measure, notes, refused
from coevolve.stages.validate.validation import validate


@dataclass(frozen=True, slots=True)
class Review:
    """A person's decision on a task: a line of a file in the folder ``reviews``, which has a file per reviewer."""

    task_id: str
    decision: Literal["accept", "reject"]


def rejected() -> set[str]:
    """The ids of tasks that a reviewer rejects, if there are reviews. A reviewer's latest decision on a task wins."""
    ids: set[str] = set()
    for file in sorted(Paths.reviews.glob("*.jsonl")):
        latest = {review.task_id: review.decision for review in read_jsonl(file, Review)}
        ids.update(name for name, decision in latest.items() if decision == "reject")
    return ids


def next_dataset(t: int) -> list[Any]:
    """The rows of dataset t + 1 as JSON: those of dataset t and the accepted tasks."""
    files = Paths.tasks(t), Paths.verified(t) / "accepted.jsonl"
    return [value for file in files for _, value in read_jsonl_values(file)]


def main(params: Params, t: int) -> None:
    environment = open_environment(params.environment)
    trajectories, visits = read_trajectories(Paths.trajectories(t)), read_visits(Paths.attempts(t + 1))
    tasks, verified = read_tasks(Paths.tasks(t)), Paths.verified(t)
    share, lost = refused(trajectories, tasks, environment.category, visits)
    measured = measure(
        t,
        trajectories,
        len(environment.tools()),
        [value for _, value in read_jsonl_objects(Paths.data(t) / "train_metrics.jsonl", STEP_KEYS)],
        visits,
        tasks,
        read_tasks(verified / "accepted.jsonl"),
        read_jsonl(verified / "verdicts.jsonl", Verdict),
        {**read_json(Paths.summary(t, "pairs"))["figures"], **read_json(Paths.summary(t, "generate"))["figures"]},
    )
    folder, docs = Paths.validation(t + 1), Paths.data_docs(t + 1)
    shutil.rmtree(docs, ignore_errors=True)  # Data Docs would keep a page of every run
    validation = validate(
        next_dataset(t),
        environment,
        {
            task.task_id
            for name in Paths.panel_names(environment.panels)
            for task in read_tasks(Paths.panel(name), environment.name)
        },
        params.validate_,
        docs,
        rejected(),
        params.tasks.split,
        {**measured, "refused": share},
    )
    write_jsonl(folder / "quarantine.jsonl", validation.quarantine)
    indicators = validation.indicators
    write_jsonl(Paths.indicators(t), indicators)
    past = [indicator for indicator in indicators if indicator.state != "ok"]
    remarks = [*notes(trajectories, visits, tasks), *lost]
    figures: dict[str, int | float | None] = {indicator.name: indicator.value for indicator in indicators}
    write_summary(StageSummary("indicators", t, figures, notes=[*map(str, past), *remarks]))
    within = f"{len(indicators) - len(past)} of {len(indicators)} indicators within their limits"
    print(*(f"{one.state}: {one}" for one in past), *remarks, f"{Paths.indicators(t)}: {within}", sep="\n")
    if stop := validation.critical:
        raise CoevolveError(
            f"iteration {t}: {stop}; the pipeline stops before it trains on this. Read data/{t} and {folder}, "
            f"then fix the cause, or change validate.{stop.name}.critical in params.yaml"
        )
    write_jsonl(Paths.tasks(t + 1), validation.tasks)
    size, families, lost_rows = len(validation.tasks), validation.families, len(validation.quarantine)
    figures = {TASKS: size, "families": len(families), "rows in quarantine": lost_rows}
    write_summary(StageSummary("validate", t + 1, figures, columns=[TASKS]))
    print(f"{Paths.tasks(t + 1)}: {size} tasks, {lost_rows} rows in quarantine")
