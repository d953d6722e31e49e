"""Great Expectations over rows in memory, with an outcome for each expectation."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevolve.core.errors import CoevolveError

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Expectation:
    """An expectation with its name in the report. ``kind`` and ``arguments`` are those of Great Expectations.

    A ``critical`` expectation stops the pipeline if it fails.
    """

    name: str
    kind: str
    arguments: Mapping[str, Any]
    critical: bool = False


@dataclass
class ExpectationOutcome:
    expectation: Expectation
    success: bool
    rows: list[int] = field(default_factory=list)


def between(column: str, low: float | None, high: float | None) -> tuple[str, dict[str, Any]]:
    """Kind and arguments: values of ``column`` lie in [low, high]; None is no limit."""
    return "ExpectColumnValuesToBeBetween", {"column": column, "min_value": low, "max_value": high}


def among(column: str, *values: Any) -> tuple[str, dict[str, Any]]:
    """Kind and arguments: ``column`` holds only these values."""
    return "ExpectColumnValuesToBeInSet", {"column": column, "value_set": list(values)}


def hashed(column: str) -> tuple[str, dict[str, Any]]:
    """Kind and arguments: ``column`` holds content hashes."""
    return "ExpectColumnValuesToMatchRegex", {"column": column, "regex": "^[0-9a-f]{16}$"}


def quarantined(outcomes: Iterable[ExpectationOutcome], records: Sequence[Any]) -> list[dict[str, Any]]:
    """The records that break expectations, each with its row and the names of the expectations."""
    names: dict[int, list[str]] = {}
    for outcome in outcomes:
        for row in outcome.rows:
            names.setdefault(row, []).append(outcome.expectation.name)
    return [{"row": row, "expectations": names[row], "record": records[row]} for row in sorted(names)]


class Suites:
    """Great Expectations in an ephemeral context, with Data Docs in the folder ``docs``."""

    def __init__(self, docs: Path | None) -> None:
        import great_expectations as gx

        self._gx = gx
        self._context = gx.get_context(mode="ephemeral")
        self._context.variables.progress_bars = {"globally": False}
        self._source = self._context.data_sources.add_pandas("memory")
        self._docs = docs
        if docs is not None:
            site = {
                "class_name": "SiteBuilder",
                "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
                "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.resolve())},
            }
            for name in list(self._context.variables.data_docs_sites or {}):
                self._context.delete_data_docs_site(name)
            self._context.add_data_docs_site("local", site)

    def run(self, name: str, frame: "pd.DataFrame", wanted: Sequence[Expectation]) -> list[ExpectationOutcome]:
        """The outcomes for ``frame``. Raises a CoevolveError if an expectation could not be judged."""
        gx = self._gx
        suite = gx.ExpectationSuite(name=name)
        for number, expectation in enumerate(wanted):
            kind = getattr(gx.expectations, expectation.kind)
            severity = "critical" if expectation.critical else "warning"
            suite.add_expectation(kind(**expectation.arguments, severity=severity, meta={"number": number}))
        suite = self._context.suites.add(suite)
        batch = self._source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
        definition = self._context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=batch, suite=suite)
        )
        result = definition.run(batch_parameters={"dataframe": frame}, result_format="COMPLETE")
        return [_outcome(wanted, outcome) for outcome in result.results]

    def build_docs(self) -> None:
        """Write the pages. Great Expectations logs the error of a page that it cannot write."""
        if self._docs is not None:
            self._context.build_data_docs()


def _outcome(wanted: Sequence[Expectation], result: Any) -> ExpectationOutcome:
    expectation = wanted[result.expectation_config.meta["number"]]
    info = result.exception_info or {}
    raised = info if "raised_exception" in info else next(iter(info.values()), {})
    if raised.get("raised_exception"):
        reason = raised.get("exception_message", "failed")
        raise CoevolveError(f"expectation {expectation.name!r} could not be judged: {reason}")
    rows = [int(row) for row in (result.result or {}).get("unexpected_index_list") or []]
    return ExpectationOutcome(expectation, bool(result.success), rows)
