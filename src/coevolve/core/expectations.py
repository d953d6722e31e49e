"""Great Expectations over rows in memory, with an outcome for each expectation."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

Wanted = Mapping[str, tuple[str, dict[str, Any]]]  # name in reports → kind and arguments of Great Expectations


@dataclass(frozen=True, slots=True)
class ExpectationOutcome:
    """The outcome of an expectation of ``column``. ``rows`` break it. A ``critical`` one stops the pipeline."""

    name: str
    column: str
    critical: bool
    success: bool
    rows: list[int]


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
            names.setdefault(row, []).append(outcome.name)
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
            self._context.variables.data_docs_sites = {"local": site}

    def run(self, name: str, facts: Sequence[Mapping[str, Any]], wanted: Wanted) -> list[ExpectationOutcome]:
        """The outcomes of the ``wanted`` expectations for a table with the rows ``facts``.

        Raises a CoevolveError if an expectation could not be judged.
        """
        import pandas as pd

        gx = self._gx
        expectations = [
            getattr(gx.expectations, kind)(**{"severity": "warning", **arguments, "meta": {"name": title}})
            for title, (kind, arguments) in wanted.items()
        ]
        suite = self._context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations))
        batch = self._source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
        definition = gx.ValidationDefinition(name=name, data=batch, suite=suite)
        definition = self._context.validation_definitions.add(definition)
        columns = dict.fromkeys(arguments["column"] for _, arguments in wanted.values())
        frame = pd.DataFrame(facts, columns=list(columns))
        outcomes = []
        for result in definition.run(batch_parameters={"dataframe": frame}, result_format="COMPLETE").results:
            title = result.expectation_config.meta["name"]
            info = result.exception_info or {}
            raised = info if "raised_exception" in info else next(iter(info.values()), {})
            if raised.get("raised_exception"):
                reason = raised.get("exception_message", "failed")
                raise CoevolveError(f"expectation {title!r} could not be judged: {reason}")
            rows = [int(row) for row in (result.result or {}).get("unexpected_index_list") or []]
            arguments = wanted[title][1]
            critical = arguments.get("severity") == "critical"
            outcomes.append(ExpectationOutcome(title, arguments["column"], critical, bool(result.success), rows))
        return outcomes

    def build_docs(self) -> None:
        """Write the pages. Great Expectations logs the error of a page that it cannot write."""
        if self._docs is not None:
            self._context.build_data_docs()
