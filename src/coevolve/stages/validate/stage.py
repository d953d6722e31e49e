"""Stage `validate`: Great Expectations over the dataset of the next iteration, the old one plus what was accepted, as far as no reviewer rejects it.

Writes data/next/tasks.jsonl, and data/next/validation with report.md, quarantine.jsonl, metrics.json; Data Docs go to data/next/data_docs.
A critical failure stops the pipeline; the report is written all the same.
"""

import shutil

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl, read_jsonl_values, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Verdict
from coevolve.core.reviews import agreed, by_gate, decided, read_reviews
from coevolve.core.stage_summary import TASKS, StageSummary, write_summary
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.params import Params
from coevolve.stages.validate.validation import validate, write


def main(params: Params, t: int) -> None:
    environment = open_environment(params.environment)
    sources = [Paths.tasks(t), Paths.verified(t) / "accepted.jsonl"]
    rows = [value for source in sources for _, value in read_jsonl_values(source)]
    panels = {name: read_tasks(Paths.panel(name), params.environment) for name in environment.panels}
    folder, docs = Paths.validation(t + 1), Paths.data_docs(t + 1)
    shutil.rmtree(docs, ignore_errors=True)  # it keeps a page of every run
    reviews = decided(read_reviews())
    found = validate(rows, environment, panels, params.validate_, params.verify.near_duplicate, docs, reviews)
    write(folder, found, f"Dataset {t + 1} of {params.environment}")
    if (broken := found.critical) is not None:
        raise CoevolveError(
            f"{Paths.tasks(t + 1)}: critical expectation {broken.expectation.name!r} fails"
            f"{f' (observed {broken.observed})' if broken.observed is not None else ''}; read {folder}/report.md, "
            "then mend the data or the limit in params.yaml, section validate"
        )
    write_jsonl(Paths.tasks(t + 1), found.tasks)
    figures: dict[str, int | float | None] = {
        TASKS: len(found.tasks),
        "families": found.metrics["families"],
        "rows in quarantine": len(found.quarantine),
    }
    same, total = agreed(by_gate(read_jsonl(Paths.verified(t) / "verdicts.jsonl", Verdict), reviews))
    if total:
        figures |= {"reviewed": total, "people agree with the gates": same / total}
    write_summary(StageSummary("validate", t + 1, figures, columns=[TASKS]))
    print(f"{Paths.tasks(t + 1)}: {len(found.tasks)} tasks, {len(found.quarantine)} rows in quarantine")
