"""JSON schemas of the records that other tools write or read, and of params.yaml, from the classes that read them here."""

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from coevolve.core.records import Candidate, Signal, Verdict
from coevolve.core.task import Task
from coevolve.stages.schema import Params
from coevolve.stages.signals.table import RecordedEpisode
from coevolve.stages.train.config import config_of
from coevolve.stages.train.learners import LEARNERS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
RECORDS = {"task": Task, "candidate": Candidate, "signal": Signal, "verdict": Verdict, "trajectory": RecordedEpisode}


class WithoutTitles(GenerateJsonSchema):
    """Omits the titles of fields, which repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schemas() -> dict[str, dict[str, Any]]:
    """Name → JSON schema: of a line of the files that hold such records, and of params.yaml."""
    found = {name: _schema(record) for name, record in RECORDS.items()} | {"params": _params()}
    return {name: {"$schema": DIALECT, **schema} for name, schema in found.items()}


def _params() -> dict[str, Any]:
    """All sections, those of learners at the top, as params.yaml has them."""
    schema = _schema(Params)
    del schema["properties"]["learners"]
    for name in LEARNERS.names():
        section = _schema(config_of(name))
        schema["$defs"] |= section.pop("$defs", {})
        schema["properties"][name] = section
    return schema


def _schema(kind: Any) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema(schema_generator=WithoutTitles)
