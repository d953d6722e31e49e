"""The methods of a simulator as tools: schemas from signatures and docstrings, and arguments of the hinted types, by pydantic."""

import ast
import inspect
import json
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from inspect import Parameter
from types import SimpleNamespace
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

import typing_extensions
from griffe import Docstring, DocstringSectionKind
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from coevolve.core.calls import misfit
from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.hashing import by_value
from coevolve.environments.tool_schema import DATA, NAMED
from coevolve.environments.world_state import jsonable

NO_TOOLS = frozenset({"state", "reset", "reward", "get_reward"})  # for coevolve and for trainers, not for agents
SECTION = re.compile(r"\n(?=[A-Z]\w*:\n\s|[A-Z]\w+\n-{3}|:\w)")  # sections may follow without an empty line
QUIET: Any = {style: {"warnings": False} for style in ("google", "numpy", "sphinx")}
HINTS: Any = typing_extensions  # makes hints that are values, which type checkers do not follow


@dataclass(frozen=True)
class MethodTool:
    """A tool: its OpenAI function schema, and what reads its arguments."""

    schema: dict[str, Any]
    arguments: TypeAdapter[dict[str, Any]]

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Copies of the arguments of a call in the types of the hints. A ValueError says in one line what does not fit.

        Numbers count by value: 5 is a float, 7.0 is an int. A text is no number, and True is none.
        """
        name = self.schema["function"]["name"]
        if wrong := misfit(name, given):
            raise ValueError(f"{name}: {wrong}")
        try:
            return self.arguments.validate_json(json.dumps(by_value(given)), strict=True)
        except ValidationError as error:
            raise ValueError(f"{name}: {_flaw(error, given)}") from None


def _flaw(error: ValidationError, given: Mapping[str, Any]) -> str:
    """The first part of the arguments ``given`` that does not fit, and what is expected there."""
    found: dict[str, list[str]] = {}
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        place = _place(one["loc"], given, one["type"] == "missing")
        found.setdefault(place, []).append(_expected(place, one["type"], one["msg"]))
    place = max(found, key=lambda path: path.count("."))  # of a union's arms, the one that fits furthest
    texts = found[place]
    start = f"{place} must be "
    if all(text.startswith(start) for text in texts):  # the arms of a union
        return start + " or ".join(dict.fromkeys(text.removeprefix(start) for text in texts))
    return texts[0]


def _place(steps: tuple[int | str, ...], given: Any, absent: bool) -> str:
    """The path to a part, without the names of a union's arms, which pydantic puts between."""
    path = []
    for step in steps:
        try:
            given = given[step]
        except (TypeError, LookupError):
            continue
        path.append(str(step)[:60])
    if absent:
        path.append(str(steps[-1]))
    return ".".join(path) or "the arguments"


def _expected(place: str, kind: str, text: str) -> str:
    if kind == "missing":
        return f"{place} is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"there is no argument {place!r}"
    text = re.sub("^[A-Z][a-z]+(?: input)? should ", "must ", text.removeprefix("Value error, "))
    text = re.sub("^must be a valid (?=[aeiou])", "must be an ", text).replace("must be a valid ", "must be a ", 1)
    return f"{place} {text}" if text.startswith("must ") else f"{place}: {text}"


@cache
def method_tools(simulator: type) -> dict[str, MethodTool]:
    """The public methods of ``simulator`` by name. What an agent could not call is a CoevolveError that names it."""
    if not isinstance(simulator, type):
        raise CoevolveError(f"simulator = {simulator!r}: expected a class, whose public methods are the tools")
    return {name: _tool(simulator, name) for name in _tool_names(simulator)}


def _tool_names(simulator: type) -> Iterator[str]:
    for name in dir(simulator):
        if name.startswith("_") or name in NO_TOOLS or (issubclass(simulator, BaseModel) and hasattr(BaseModel, name)):
            continue
        held, method = inspect.getattr_static(simulator, name), getattr(simulator, name)
        if not isinstance(held, classmethod) and (inspect.isfunction(method) or hasattr(method, "__wrapped__")):
            yield name


def _tool(simulator: type, name: str) -> MethodTool:
    words, described = _documented(getattr(simulator, name))
    record = {}
    for one in _parameters(simulator, name):
        hint = _hint(simulator, name, one, described.get(one.name))
        record[one.name] = (HINTS.Required if one.default is Parameter.empty else HINTS.NotRequired)[hint]
    arguments = _adapter(name, record)
    parameters = {"type": "object", "properties": {}, "required": [], **_json_schema(arguments)}
    function = {"name": name, "description": words or name, "parameters": parameters}
    return MethodTool({"type": "function", "function": function}, arguments)


def _adapter(name: str, record: Mapping[str, Any]) -> TypeAdapter[dict[str, Any]]:
    kind = HINTS.TypedDict(name, record)
    kind.__pydantic_config__ = ConfigDict(extra="forbid")  # also for the records in it
    return TypeAdapter(kind)


def _parameters(simulator: type, name: str) -> list[Parameter]:
    """The parameters that an agent gives by name."""
    found = list(inspect.signature(getattr(simulator, name)).parameters.values())
    if not isinstance(inspect.getattr_static(simulator, name), staticmethod):
        del found[:1]
    remedy = f"; if it is no tool, rename it to _{name}"
    for one in found:
        place = f"{simulator.__name__}.{name}: {one.name}"
        if one.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL):
            raise CoevolveError(f"{place} stands for any arguments; name each one with its type hint{remedy}")
        if one.kind is Parameter.POSITIONAL_ONLY:
            raise CoevolveError(f"{place} has no name for callers; remove the / after it{remedy}")
        if one.annotation is Parameter.empty:
            raise CoevolveError(f"{place} needs a type hint, as in `{one.name}: str`{remedy}")
        if isinstance(one.default, FieldInfo):
            raise CoevolveError(f"{place} has a Field as its default; write Annotated[type, Field(...)] = default")
    return found


def _hint(simulator: type, name: str, one: Parameter, words: str | None) -> Any:
    """The type hint of a parameter as pydantic reads it, with its description and default."""
    try:
        hint = _filled(_resolved(one.annotation, simulator, name), _type_arguments(simulator))
        _adopt(hint)
        hint, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if get_origin(hint) is Iterable:  # pydantic would check the members only while the method takes them
            hint = HINTS.List[get_args(hint)]
        metadata = [Field(description=said) if isinstance(said, str) else said for said in metadata]
        extra = partial(_add_default, one.default)
        hint = HINTS.Annotated[(hint, Field(description=words, json_schema_extra=extra), *metadata)]
        _json_schema(_adapter("hint", {one.name: hint}))
    except Exception as error:  # of pydantic, or of a hint that Python cannot evaluate
        place, kind = f"{simulator.__name__}.{name}: {one.name}", type(error).__name__
        raise CoevolveError(
            f"{place} has a type hint that cannot be used ({kind}: {first_line(error)}); hint what JSON holds, a "
            f"dataclass or a pydantic model; if it is no tool, rename it to _{name}"
        ) from None
    return hint


def _add_default(value: Any, schema: dict[str, Any]) -> None:
    """Tell agents of a default ``value`` that is not empty. An argument with the default None is left out rather than null."""
    arms = [arm for arm in schema.get("anyOf", ()) if arm != {"type": "null"}]
    if value is None and len(arms) == 1:
        del schema["anyOf"]
        schema |= arms[0]
    with suppress(ValueError, TypeError):
        if value is not Parameter.empty and (value or value in (0, False)):
            schema["default"] = jsonable(value)


def _resolved(annotation: Any, simulator: type, name: str) -> Any:
    """The hint behind an annotation that may be text, or hold text, of the method ``name``."""
    method = inspect.unwrap(getattr(simulator, name))
    holder: Any = SimpleNamespace(__annotations__={"hint": annotation})
    names = method.__globals__
    try:
        return get_type_hints(holder, names, include_extras=True)["hint"]
    except NameError:
        more = {**_type_checking(method.__module__), **names, **vars(simulator)}
        return get_type_hints(holder, more, include_extras=True)["hint"]


@cache
def _type_checking(module: str) -> dict[str, Any]:
    """The names that ``module`` imports or defines only for type checkers."""
    names = dict(vars(sys.modules[module]))
    with suppress(OSError, TypeError):  # no source: typed into a notebook
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                for line in node.body:
                    with suppress(Exception):  # a name that is not there is missed where it is used
                        exec(compile(ast.Module([line], []), module, "exec"), names)
    return names


def _type_arguments(simulator: type) -> dict[Any, Any]:
    """What stands for the type variables of the generic classes that ``simulator`` inherits."""
    known: dict[Any, Any] = {}
    for base in inspect.getmro(simulator):
        for generic in vars(base).get("__orig_bases__", ()):
            variables = getattr(get_origin(generic), "__parameters__", ())
            known |= {one: _filled(given, known) for one, given in zip(variables, get_args(generic), strict=False)}
    return known


def _filled(hint: Any, known: Mapping[Any, Any]) -> Any:
    """``hint`` with the ``known`` type variables."""
    if isinstance(hint, typing.TypeVar):
        return known.get(hint, hint)
    variables = () if isinstance(hint, type) else getattr(hint, "__parameters__", ())
    return hint[tuple(known.get(one, one) for one in variables)] if variables else hint


def _adopt(hint: Any, seen: list[Any] | None = None) -> None:
    """Let pydantic read the records of ``typing.TypedDict`` in ``hint``, which it refuses before Python 3.12."""
    seen = [] if seen is None else seen
    if hint in seen:
        return
    seen.append(hint)
    inner = list(get_args(hint)) if get_origin(hint) is not typing.Literal else []
    if is_dataclass(hint) or typing_extensions.is_typeddict(hint):
        inner += get_type_hints(hint, include_extras=True).values()
    if type(hint).__module__ == "typing" and typing_extensions.is_typeddict(hint):
        record = _record(hint)
        hint.__get_pydantic_core_schema__ = classmethod(lambda kind, _, handler: handler.generate_schema(record))
    for one in inner:
        _adopt(one, seen)


def _record(kind: Any) -> Any:
    """A record of ``typing.TypedDict`` as one of ``typing_extensions.TypedDict``."""
    hints = get_type_hints(kind, include_extras=True)
    for name, hint in hints.items():
        if get_origin(hint) not in (Required, NotRequired):
            hints[name] = (HINTS.Required if name in kind.__required_keys__ else HINTS.NotRequired)[hint]
    return HINTS.TypedDict(kind.__name__, hints)


class _Schema(GenerateJsonSchema):
    """A Decimal is a number, and a part has no title that repeats its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        number: dict[str, Any] = super().decimal_schema(schema)["anyOf"][0]
        return number


def _json_schema(arguments: TypeAdapter[Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, with each definition in place of its references unless one leads back to itself."""
    schema = arguments.json_schema(schema_generator=_Schema)
    definitions = schema.pop("$defs", {})
    try:
        found: dict[str, Any] = _simple(schema, definitions)
    except RecursionError:
        found = _simple({**schema, "$defs": definitions}, {})
    return found


def _simple(part: Any, definitions: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """``part`` without titles, and with ``definitions`` in place of references."""
    if isinstance(part, list):
        return [_simple(one, definitions, within) for one in part]
    if not isinstance(part, dict):
        return part
    name = part.get("$ref", "").removeprefix("#/$defs/")
    if name in within:
        raise RecursionError(name)
    if name in definitions:
        beside = {key: inner for key, inner in part.items() if key != "$ref"}
        return _simple({**definitions[name], **beside}, definitions, (*within, name))
    simple: dict[str, Any] = {}
    for key, inner in part.items():
        if key in NAMED:
            simple[key] = {name: _simple(one, definitions, within) for name, one in inner.items()}
        elif key in DATA:
            simple[key] = inner
        elif key != "title" and inner is not False:
            simple[key] = _simple(inner, definitions, within)
    if simple.get("propertyNames", {}).get("type") == "integer":  # the keys of JSON are texts
        del simple["propertyNames"]
    return simple


def _documented(method: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and its description of each argument in Google's, NumPy's or Sphinx's form."""
    text = SECTION.sub("\n\n", inspect.getdoc(method) or "")
    words = ""
    described: dict[str, str] = {}
    for section in Docstring(text).parse("auto", per_style_options=QUIET):
        if section.kind is DocstringSectionKind.text:
            words = words or section.value.split("\n\n")[0]
        if section.kind is DocstringSectionKind.parameters:
            described |= {one.name: " ".join(one.description.split()) for one in section.value}
    return words, described
