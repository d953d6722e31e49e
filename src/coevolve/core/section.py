"""The base class of the sections of params.yaml: typed keys, each with a default and one sentence."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from coevolve.core.errors import expected
from coevolve.core.plugins import is_file, is_place

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
