"""Parsing of generations: hostile text never raises and reaches only ``json.loads``."""

import json
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.stages.generate.spec import CLOSE, LONGEST, MOST, OPEN, UNKNOWN, UNREADABLE, Spec, Tools, named, parse

TOOLS = Tools(("pay", "lock", "archive", "move", "send"), ("find", "list"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["pay", "find"]),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(["goals", "ask", "x"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<spec>{"goals": ["pay", "move"], "ask": null}</spec>', Spec(("pay", "move"))),
        ('I think <spec>{"goals": ["pay"], "ask": "find"}</spec> would do', Spec(("pay",), "find")),
        ('<spec>{"goals": ["pay"]}</spec>', Spec(("pay",))),
        ('<spec>{"goals": [], "ask": "find"}</spec>', Spec((), "find")),
        ("", UNREADABLE),
        ('{"goals": ["pay"], "ask": null}', UNREADABLE),
        ('<spec>{"goals": ["pay"], "ask": null}', UNREADABLE),
        ("<spec>[]</spec>", UNREADABLE),
        ('<spec>{"goals": [], "ask": null}</spec>', UNREADABLE),
        ('<spec>{"goals": "pay", "ask": null}</spec>', UNREADABLE),
        ('<spec>{"goals": ["pay", "pay"], "ask": null}</spec>', UNREADABLE),
        ('<spec>{"goals": ["pay"], "ask": ["find"]}</spec>', UNREADABLE),
        ('<spec>{"goals": ["pay"], "ask": null, "run": "rm"}</spec>', UNREADABLE),
        ('<spec>{"goals": ["pay", "move", "send", "archive", "fly"], "ask": null}</spec>', UNREADABLE),
        ('<spec>{"goals": ["fly"], "ask": null}</spec>', UNKNOWN),
        ('<spec>{"goals": ["find"], "ask": null}</spec>', UNKNOWN),
        ('<spec>{"goals": ["pay"], "ask": "move"}</spec>', UNKNOWN),
        (f'<spec>{{"goals": ["pay"], "ask": null}}{" " * LONGEST}</spec>', UNREADABLE),
        (f"<spec>{'[' * 1900}</spec>", UNREADABLE),
    ],
)
def test_text_is_parsed_to_a_spec_or_a_reason(text: str, expected: Spec | str) -> None:
    assert parse(text, TOOLS) == expected


specs = st.builds(
    Spec,
    st.lists(st.sampled_from(["pay", "archive", "move", "send"]), min_size=1, max_size=MOST, unique=True).map(tuple),
    st.none() | st.just("find"),
)


@given(specs, st.text(max_size=20), st.text(max_size=20))
def test_spec_is_read_back_as_written(spec: Spec, before: str, after: str) -> None:
    assert parse(str(spec), TOOLS) == spec
    assert parse(before.replace("<", "") + str(spec) + after, TOOLS) == spec


hostile = st.text() | st.builds(lambda value: f"{OPEN}{json.dumps(value)}{CLOSE}", json_values) | st.builds(
    lambda text: f"{OPEN}{text}{CLOSE}", st.text()
)  # fmt: skip


@settings(max_examples=200)
@given(hostile)
def test_hostile_text_is_refused_and_never_executed(text: str) -> None:
    with patch("builtins.eval", side_effect=AssertionError), patch("builtins.exec", side_effect=AssertionError):
        found = parse(text, TOOLS)
    if isinstance(found, Spec):
        assert set(found.goals) <= set(TOOLS.goals) and len(found.goals) + bool(found.ask) > 0
        assert found.ask in (None, *TOOLS.lookups) and len(found.goals) <= MOST
    else:
        assert found in (UNREADABLE, UNKNOWN)


def test_spec_of_a_task_names_its_changes_or_else_its_lookup() -> None:
    assert named(["find", "pay", "done", "move"], TOOLS) == Spec(("pay", "move"))
    assert named(["find", "done"], TOOLS) == Spec((), "find")
    assert named(["done"], TOOLS) is None
