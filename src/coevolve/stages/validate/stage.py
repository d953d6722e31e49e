"""Stage `validate`: check the next dataset, which is the old dataset plus the accepted tasks, with Great Expectations.

It omits tasks that a reviewer rejects. Writes data/next/tasks.jsonl, data/next/validation with report.md, quarantine.jsonl and
metrics.json, and Data Docs in data/next/data_docs. A critical failure stops the pipeline after the report is written.
"""

import shutil
from dataclasses import dataclass
from typing import Literal

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse, read_jsonl_objects, read_jsonl_values, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.stage_summary import TASKS, StageSummary, write_summary
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.schema import Params
from coevolve.stages.validate.validation import validate, write


@dataclass(frozen=True, slots=True)
class Review:
    """A person's decision on a task: a line of a file in the folder ``reviews``, which has a file per reviewer."""

    task_id: str
    decision: Literal["accept", "reject"]


def rejected() -> set[str]:
    """The ids of tasks that at least one reviewer rejects. A reviewer's latest decision on a task wins.

    Empty without the folder ``reviews``.
    """
    ids: set[str] = set()
    for file in sorted(Paths.reviews.glob("*.jsonl")):
        reviews = (parse(Review, value, f"{file}:{number}") for number, value in read_jsonl_objects(file))
        latest = {review.task_id: review.decision for review in reviews}
        ids.update(name for name, decision in latest.items() if decision == "reject")
    return ids


def main(params: Params, t: int) -> None:
    environment = open_environment(params.environment)
    sources = [Paths.tasks(t), Paths.verified(t) / "accepted.jsonl"]
    rows = [value for source in sources for _, value in read_jsonl_values(source)]
    panels = {name: read_tasks(Paths.panel(name), params.environment) for name in environment.panels}
    folder, docs = Paths.validation(t + 1), Paths.data_docs(t + 1)
    shutil.rmtree(docs, ignore_errors=True)  # Data Docs would keep a page of every run
    validation = validate(
        rows,
        environment,
        panels,
        params.validate_,
        params.verify.near_duplicate,
        docs,
        rejected(),
        split=params.tasks.split,
    )
    write(folder, validation, f"Dataset {t + 1} of {params.environment}")
    if (failed := validation.critical) is not None:
        raise CoevolveError(
            f"{Paths.tasks(t + 1)}: critical expectation {failed.expectation.name!r} fails"
            f"{f' (observed {failed.observed})' if failed.observed is not None else ''}; read {folder}/report.md, "
            "then fix the data or the limit in params.yaml, section validate"
        )
    write_jsonl(Paths.tasks(t + 1), validation.tasks)
    figures: dict[str, int | float | None] = {
        TASKS: len(validation.tasks),
        "families": validation.metrics["families"],
        "rows in quarantine": len(validation.quarantine),
    }
    write_summary(StageSummary("validate", t + 1, figures, columns=[TASKS]))
    print(f"{Paths.tasks(t + 1)}: {len(validation.tasks)} tasks, {len(validation.quarantine)} rows in quarantine")
