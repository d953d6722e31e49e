"""JSON schemas of the records that other tools write or read, and of params.yaml, from the classes that read them here."""

from typing import Any

from pydantic import BaseModel, TypeAdapter, create_model

from coevolve.core.records import Candidate, Signal, Verdict
from coevolve.core.task import SCHEMA_VERSION, Task
from coevolve.stages.schema import Params
from coevolve.stages.signals.load import CALLS, COLUMNS, REQUIRED
from coevolve.stages.train.learners import LEARNERS, config_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class RecordedCall(BaseModel):
    name: str
    ok: bool | None = None


TYPES: dict[str, Any] = {"VARCHAR": str, "BIGINT": int, "DOUBLE": float, CALLS: list[RecordedCall]}
FIELDS: dict[str, Any] = {
    name: (TYPES[kind], ...) if name in REQUIRED else (TYPES[kind] | None, None) for name, kind in COLUMNS.items()
}
TRAJECTORY = create_model("Trajectory", __doc__="An episode, as `coevolve signals` reads it.", **FIELDS)
RECORDS = {"task": Task, "candidate": Candidate, "signal": Signal, "verdict": Verdict, "trajectory": TRAJECTORY}


def schemas() -> dict[str, dict[str, Any]]:
    """Name → JSON schema: of a line of the files that hold such records, and of params.yaml."""
    records = {name: TypeAdapter(record).json_schema() for name, record in RECORDS.items()}
    return {name: {"$schema": DIALECT, **_tidy(schema)} for name, schema in {**records, "params": _params()}.items()}


def _params() -> dict[str, Any]:
    """All sections, those of learners at the top, as params.yaml has them."""
    schema = Params.model_json_schema()
    del schema["properties"]["learners"]
    for name in LEARNERS.names():
        section = config_of(name).model_json_schema()
        schema["$defs"] |= section.pop("$defs", {})
        schema["properties"][name] = section
    return schema


def _tidy(value: Any, named: bool = False) -> Any:
    """``value`` without titles that repeat names. Patterns end as in every dialect, and versions are the one that we read.

    ``named``: the keys of ``value`` are names of properties or definitions, not words of JSON Schema.
    """
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    tidy = {key: _tidy(inner, key in ("properties", "$defs") and not named) for key, inner in value.items()}
    if named:
        return {**tidy, **({"schema_version": {"const": SCHEMA_VERSION}} if "schema_version" in tidy else {})}
    if "properties" not in tidy:
        tidy.pop("title", None)
    if "pattern" in tidy:
        tidy["pattern"] = tidy["pattern"].replace(r"\z", "$")
    return tidy
