"""The methods of a simulator as tools: schemas from signatures and docstrings, and arguments of the hinted types, by pydantic."""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import Parameter
from types import SimpleNamespace
from typing import Annotated, Any, Self, TypeVar, get_args, get_origin, get_type_hints

import typing_extensions
from griffe import Docstring, DocstringSectionKind
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from coevolve.core.errors import CoevolveError, first_line
from coevolve.core.hashing import by_value
from coevolve.environments.world_state import jsonable

NO_TOOLS = frozenset({"state", "reset", "reward", "get_reward"})  # for coevolve and for trainers, not for agents
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
        try:
            return self.arguments.validate_json(json.dumps(by_value(given)), strict=True)
        except ValidationError as error:
            flaws = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)]
            raise ValueError(f"{self.schema['function']['name']}: {'; '.join(flaws)[:500]}") from None


@cache
def method_tools(simulator: type) -> dict[str, MethodTool]:
    """The public methods of ``simulator`` by name. What an agent could not call is a CoevolveError that names it."""
    if not isinstance(simulator, type):
        raise CoevolveError(f"simulator = {simulator!r}: expected a class, whose public methods are the tools")
    state = getattr(simulator, "state", None)
    if callable(state) and len(inspect.signature(state).parameters) > 1:
        raise CoevolveError(
            f"{simulator.__name__}.state may take no arguments: it returns the state that coevolve compares; rename it if "
            "it is a tool"
        )
    others = {*NO_TOOLS, *(dir(BaseModel) if issubclass(simulator, BaseModel) else ())}
    methods = inspect.getmembers_static(
        simulator, lambda held: inspect.isfunction(held) or hasattr(held, "__wrapped__")
    )
    return {
        name: _tool(simulator, name)
        for name, held in methods
        if not name.startswith("_") and name not in others and not isinstance(held, classmethod)
    }


def _tool(simulator: type, name: str) -> MethodTool:
    words, described = _documented(getattr(simulator, name))
    bound = inspect.getattr_static(simulator, name).__get__(simulator)  # without self
    record = {}
    for one in inspect.signature(bound).parameters.values():
        try:
            hint = _hint(simulator, name, one, described.get(one.name))
            _adapter(name, {one.name: hint}).json_schema()
        except Exception as error:  # of pydantic, or of a hint that Python cannot evaluate
            problem = (
                str(error)
                if isinstance(error, CoevolveError)
                else f"has a type hint or a default that cannot be used ({type(error).__name__}: {first_line(error)}); hint "
                "what JSON holds, a dataclass or a pydantic model, and import it at run time, not only if TYPE_CHECKING"
            )
            place = f"{simulator.__name__}.{name}: {one.name}"
            raise CoevolveError(f"{place} {problem}; if it is no tool, rename it to _{name}") from None
        record[one.name] = (HINTS.Required if one.default is Parameter.empty else HINTS.NotRequired)[hint]
    arguments = _adapter(name, record)
    parameters = {"type": "object", "properties": {}, "required": [], **arguments.json_schema(schema_generator=_Schema)}
    del parameters["title"]
    return MethodTool(
        {"type": "function", "function": {"name": name, "description": words or name, "parameters": parameters}},
        arguments,
    )


def _adapter(name: str, record: Mapping[str, Any]) -> TypeAdapter[dict[str, Any]]:
    kind = HINTS.TypedDict(name, record)
    kind.__pydantic_config__ = ConfigDict(extra="forbid")  # also for the records in it
    return TypeAdapter(kind)


def _hint(simulator: type, name: str, one: Parameter, words: str | None) -> Any:
    """The type hint of a parameter as pydantic reads it, with its description and default."""
    if one.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
        raise CoevolveError("cannot be given by name; name each argument with its type hint, without * and /")
    if one.annotation is Parameter.empty:
        raise CoevolveError(f"needs a type hint, as in `{one.name}: str`")
    if isinstance(one.default, FieldInfo):
        raise CoevolveError("has a Field as its default; write Annotated[type, Field(...)] = default")
    holder: Any = SimpleNamespace(__annotations__={"hint": one.annotation})  # may be text, or hold text
    names = inspect.unwrap(getattr(simulator, name)).__globals__
    classes = dict(inspect.getmembers(simulator, inspect.isclass))
    hint = get_type_hints(holder, names, classes, include_extras=True)["hint"]
    _adopt(hint)
    hint, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    metadata = [Field(description=said) if isinstance(said, str) else said for said in metadata]
    extra = {} if one.default in (Parameter.empty, None, "") else {"default": jsonable(one.default)}
    return HINTS.Annotated[(hint, Field(description=words, json_schema_extra=extra), *metadata)]


def _adopt(hint: Any) -> None:
    """Refuse what is no type in ``hint``, and let pydantic read `typing.TypedDict`, which it refuses before Python 3.12."""
    if hint is Self or isinstance(hint, TypeVar):
        raise CoevolveError(f"has a type hint with {hint}, which stands for other types; hint one of them")
    inner = get_args(hint)
    if typing_extensions.is_typeddict(hint) and not hasattr(hint, "__get_pydantic_core_schema__"):
        hints = get_type_hints(hint, include_extras=True)
        inner = tuple(hints.values())
        hints |= {name: HINTS.NotRequired[hints[name]] for name in hint.__optional_keys__}
        record = HINTS.TypedDict(hint.__name__, hints)
        hint.__get_pydantic_core_schema__ = classmethod(lambda kind, _, handler: handler.generate_schema(record))
    for one in inner:
        _adopt(one)


class _Schema(GenerateJsonSchema):
    """A Decimal is a number, and a part has no title that repeats its name."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        return dict(super().decimal_schema(schema)["anyOf"][0])


def _documented(method: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and its description of each argument in Google's, NumPy's or Sphinx's form."""
    sections = Docstring(inspect.getdoc(method) or "").parse("auto", per_style_options=QUIET)
    words = [one.value.split("\n\n")[0] for one in sections if one.kind is DocstringSectionKind.text]
    arguments = [
        one for section in sections if section.kind is DocstringSectionKind.parameters for one in section.value
    ]
    return (words or [""])[0], {one.name: " ".join(one.description.split()) for one in arguments}
