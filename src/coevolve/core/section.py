"""The sections of params.yaml: typed keys, each with a default and one sentence. Reads params.yaml and similar files.

Every mistake is a line that names the key and the nearest valid key.
"""

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML, YAMLError

from coevolve.core.errors import CoevolveError, expected
from coevolve.core.io import read_text
from coevolve.core.plugins import is_file, is_place
from coevolve.core.untrusted import URL
from coevolve.core.untrusted import one_line as shortened

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
NotNegative = Annotated[float, Field(ge=0.0)]


class Section(BaseModel):
    """A section. The sentence under each field is its documentation: docs/parameters.md and `coevolve params` print it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


def one_of(names: Callable[[], Collection[str]], files: bool = False, places: bool = False) -> AfterValidator:
    """Check that a text is one of ``names``, which are computed at the check.

    It may also be a file of Python if ``files`` are allowed, or say where a class is if ``places`` are.
    """

    def check(name: str) -> str:
        if places and is_place(name):
            return name
        if files and is_file(name):
            if not Path(name).is_file():
                raise ValueError("there is no such file; expected a path from the project's folder")
            return name
        choices = names()
        if name not in choices:
            raise ValueError(expected(name, choices))
        return name

    return AfterValidator(check)


def dotted(values: Mapping[str, Any], prefix: str = "", whole: Collection[str] = ()) -> dict[str, Any]:
    """The leaves of nested ``values`` by dotted key, such as ``train.lora.rank``. ``whole`` keys are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        inner = isinstance(value, Mapping) and key not in whole
        leaves.update(dotted(value, f"{prefix}{key}.", whole) if inner else {f"{prefix}{key}": value})
    return leaves


class LearnerConfig(Section):
    """The keys of one learner."""

    trains: ClassVar[bool] = True
    """Whether the learner writes a policy."""
    by_pairs: ClassVar[bool] = False
    """Whether the learner needs preference pairs, which stage `pairs` then makes."""


SECRET = {
    "endpoint.key": "expected the name of an environment variable, such as OPENAI_API_KEY, never the key itself",
    "endpoint.url": URL,
    "compute.address": "expected auto, here or HOST:PORT, without a user",
}

Checked = TypeVar("Checked", bound=Section)


def read_yaml(text: str, where: str = "YAML") -> Any:
    """YAML 1.2, as DVC reads and writes it: 1e-05 is a number. A mistake is a CoevolveError that names ``where`` and the line."""
    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or error
        line = f"line {mark.line + 1}: " if mark else ""
        raise CoevolveError(f"{where}: {line}expected YAML ({shortened(str(problem), 300)})") from None
    except RecursionError:
        raise CoevolveError(f"{where}: expected YAML (nested too deeply)") from None


def put(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Set the keys of ``values``, which holds sections, to what ``given`` has by dotted keys."""
    for key, value in given.items():
        section = values
        *path, last = key.split(".")
        for name in path:
            section = section.setdefault(name, {})
            if not isinstance(section, dict):
                raise CoevolveError(f"-S {key}: {name} is no section")
        section[last] = value


def one_line(value: Any, word: Callable[[str], str]) -> str:
    """``value`` in one line, in the syntax of YAML and Hydra. ``word`` writes texts that are not keys."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {one_line(inner, word)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(one_line(inner, word) for inner in value) + "]"
    return word(value) if isinstance(value, str) else json.dumps(value)


def load_yaml(path: Path, missing: str) -> dict[str, Any]:
    """The sections of a YAML file. ``missing`` is the remedy in the error for a missing file."""
    if not path.exists():
        raise CoevolveError(f"{path}: no such file; {missing}")
    raw = read_yaml(read_text(path), str(path))
    if not isinstance(raw, dict):
        raise CoevolveError(f"{path}: expected sections with keys, found {type(raw).__name__}")
    return raw


def validated(section: type[Checked], values: dict[str, Any], name: str) -> Checked:
    """A section from other sources than params.yaml. Errors name its keys as those of section ``name``."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        raise CoevolveError(explain(error, section, name)) from None


def explain(error: ValidationError, model: type[BaseModel], section: str = "") -> str:
    """The first mistake of ``error``, which ``model`` found in ``section``, in one line."""
    errors = error.errors()
    first = next((entry for entry in errors if entry["type"] == "extra_forbidden"), errors[0])
    key = ".".join(str(part) for part in ((section,) if section else ()) + first["loc"])
    if first["type"] == "extra_forbidden":
        return unknown(key, _siblings(model, first["loc"][:-1]))
    if first["type"] == "missing":
        return f"missing key {key}; add it"
    message = str(first["msg"]).removeprefix("Value error, ")
    if not key:
        return message
    if isinstance(first["input"], dict) and first["type"] == "value_error":  # keys that contradict each other
        return f"{key}: {message}; change one of them"
    if key in SECRET:
        return f"{key}: {SECRET[key]}; change it"  # the value may be a key: it is not shown
    return f"{key}: {message}, found {shortened(repr(first['input']))}; change it"


def unknown(key: str, keys: Collection[str]) -> str:
    """The error for a ``key`` that is not among the ``keys`` of its section, with the nearest valid key."""
    key = shortened(key)
    close = difflib.get_close_matches(key.rpartition(".")[2], keys, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "remove it, or see docs/parameters.md"
    return f"unknown key {key}; {hint}"


def _siblings(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """The valid keys at ``location`` of the parameters."""
    for part in location:
        if isinstance(part, int):
            continue
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                arguments = getattr(field.annotation, "__args__", None)
                model = arguments[0] if arguments else field.annotation
    return [field.alias or name for name, field in model.model_fields.items()]
