"""Numbers on the command line: each option takes numbers in its range and refuses others in one line."""

import argparse
import math
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.cli import parser
from coevolve.core import launch, numeric_options, processes
from coevolve.core.errors import CoevolveError
from coevolve_environments.openenv.openenv_environment import OpenEnv

KINDS: dict[str, Callable[[float], bool]] = {
    "count": lambda value: value >= 1 and value == int(value),
    "whole": lambda value: value >= 0 and value == int(value),
    "port": lambda value: 1 <= value <= 65535 and value == int(value),
    "share": lambda value: 0 <= value <= 1,
    "positive": lambda value: value > 0,
    "not_negative": lambda value: value >= 0,
}
TEXTS = st.one_of(st.text(), st.integers().map(str), st.floats().map(str), st.sampled_from(["1", "0.5", "1e400", "٣"]))


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXTS)
def test_number_fits_its_option_or_is_refused(kind: str, text: str) -> None:
    try:
        value = getattr(numeric_options, kind)(text)
    except argparse.ArgumentTypeError as error:
        assert "\n" not in str(error)
    else:
        assert math.isfinite(value) and KINDS[kind](value) and value == float(text)


def test_a_number_in_range_is_taken() -> None:
    taken = {"count": 1, "whole": 0, "port": 65535, "share": 0.9, "positive": 1e-9, "not_negative": 0.0}
    assert {kind: getattr(numeric_options, kind)(str(value)) for kind, value in taken.items()} == taken


def actions(one: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.Action]]:
    for action in one._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, inner in action.choices.items():
                yield from actions(inner, f"{name} {word}")
        else:
            yield f"{name} {'/'.join(action.option_strings) or action.dest}", action


def test_every_number_on_the_command_line_has_a_range() -> None:
    found = dict(actions(parser(), "coevolve"))
    assert "coevolve evaluate --tasks" in found
    assert [name for name, action in found.items() if action.type in (int, float)] == []


VARIABLES: dict[str, Callable[[], object]] = {
    processes.VARIABLE: processes.available,
    launch.MACHINE: launch.machine,
    "OPENENV_SESSIONS": OpenEnv,
}


@pytest.mark.parametrize("text", ["", "-1", "1.5", "many", "²", "٣", "9" * 5000])
@pytest.mark.parametrize("name", VARIABLES)
def test_bad_number_in_an_environment_variable_is_a_one_line_error(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(
        CoevolveError, match=f"^{name}: .* is not a whole number of at least [01]; correct it or unset it$"
    ):
        VARIABLES[name]()
