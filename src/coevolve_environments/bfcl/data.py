"""The contents of the package ``bfcl-eval``: its items and answers, its functions' documents, its API classes.

This module imports only parts that need no dependency of the package and create no folders in site-packages.
"""

import ast
import hashlib
import inspect
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall

DOCS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
_SOURCES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_SCHEMA_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}

Row = dict[str, Any]


def folder() -> Path:
    """The folder of the package's data. If the package is missing, a CoevolveError says what to type."""
    spec = find_spec("bfcl_eval")
    try:
        version("bfcl-eval")
    except PackageNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise CoevolveError("bfcl is not installed; run `coevolve env install bfcl`")
    return Path(spec.origin).parent / "data"


def _lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _file(category: str, answers: bool) -> Path:
    place = folder() / "possible_answer" if answers else folder()
    return place / f"BFCL_v4_{category}.json"


def items(category: str) -> list[tuple[Row, Any]]:
    """The items of a category in the package's order, each with its answer."""
    answers = {row["id"]: row["ground_truth"] for row in _lines(_file(category, True))}
    return [(row, answers[row["id"]]) for row in _lines(_file(category, False))]


def fingerprint(categories: Iterable[str]) -> str:
    """The version of the package, with a hash of the items and answers of the categories."""
    content = b"".join(_file(one, answers).read_bytes() for one in categories for answers in (False, True))
    return f"bfcl-eval-{version('bfcl-eval')}-{hashlib.sha256(content).hexdigest()[:12]}"


@cache
def documented(name: str) -> dict[str, dict[str, Any]]:
    """OpenAI schemas, by function name, of the documented functions of an API class."""
    return {
        doc["name"]: function_schema(doc) for doc in _lines(folder() / "multi_turn_func_doc" / f"{DOCS[name]}.json")
    }


def function_schema(doc: Row) -> dict[str, Any]:
    """An OpenAI function schema of a function's document in the package's own format."""
    return {
        "type": "function",
        "function": {
            "name": doc["name"],
            "description": doc["description"].split("Tool description: ")[-1],
            "parameters": _schema(doc["parameters"]),
        },
    }


def _schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema from the package's format, which uses Python's type names."""
    kind = str(schema.get("type", "string")).lower()
    new = {**schema, "type": _SCHEMA_TYPES.get(kind, kind)}
    if isinstance(schema.get("properties"), dict):
        new["properties"] = {key: _schema(value) for key, value in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        new["items"] = _schema(schema["items"])
    return new


@cache
def api_class(name: str) -> Any:
    """The Python class of an API."""
    if name not in DOCS:
        raise CoevolveError(f"bfcl has no API {name!r}; expected one of: {', '.join(DOCS)}")
    return getattr(import_module(f"{_SOURCES}.{DOCS[name]}"), name)


def parse_call(text: str, classes: Sequence[str]) -> ToolCall:
    """Parse a call string of the benchmark's answers. Arguments are literals; positions follow the function's signature."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise CoevolveError(f"expected a call with literal arguments, found {text[:80]!r}")
    name = node.func.id
    owner = next((one for one in classes if name in documented(one)), None)
    if owner is None:
        raise CoevolveError(f"{name!r} is not a function of any of: {', '.join(classes)}")
    parameters = [one for one in inspect.signature(getattr(api_class(owner), name)).parameters if one != "self"]
    arguments = dict(zip(parameters, (ast.literal_eval(value) for value in node.args), strict=False))
    arguments.update({str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords})
    return ToolCall(name, json.loads(json.dumps(arguments)))
