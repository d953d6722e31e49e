"""The untrained generator: edits of specs, and a folder for each kind of model."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.policies import helper_model
from coevolve.stages.generate.spec import MOST, Spec, Tools, parse
from coevolve.stages.generator import tiny_generator as initial
from coevolve.stages.generator.tiny_generator import drawn, edited, knows_specs, start
from tests import POLICY
from tests.generator import hardly_trained
from tests.unit.stages.generate.small import TASKS, TOOLS
from tests.unit.stages.train.small import WORLD


@given(st.integers(0, 2**32), st.integers(1, 6), st.booleans())
def test_edit_changes_a_goal_or_the_order_and_stays_a_spec(seed: int, count: int, lookups: bool) -> None:
    tools = Tools(TOOLS.goals[:count], TOOLS.lookups if lookups else ())
    rng = random.Random(seed)
    ask = drawn(tools, rng)
    after = edited(ask.spec, tools, rng)
    for spec in (ask.spec, after):
        assert parse(str(spec), tools) == spec and 1 <= len(spec.goals) <= min(MOST, count)
    before, now = set(ask.spec.goals), set(after.goals)
    assert len(before - now) <= 1 and len(now - before) <= 1, "at most one goal goes, and one comes"
    assert str(ask).endswith(str(ask.spec)), "the spec comes last"


def test_edit_of_a_single_goal_takes_another() -> None:
    tools = Tools(("sum_2", "sum_4", "sum_8"), (), constructed=True)
    rng = random.Random(0)
    for _ in range(100):
        ask = drawn(tools, rng)
        assert len(ask.spec.goals) == 1 and parse(str(edited(ask.spec, tools, rng)), tools) != ask.spec
    assert edited(Spec(("sum_2",)), Tools(("sum_2",), (), constructed=True), rng) == Spec(("sum_2",))


def test_edits_of_all_kinds_are_made() -> None:
    rng = random.Random(0)
    sizes = {len(edited(Spec(TOOLS.goals[:2]), TOOLS, rng).goals) for _ in range(100)}
    assert sizes == {1, 2, 3}
    orders = {edited(Spec(TOOLS.goals[:2]), TOOLS, rng).goals for _ in range(200)}
    assert TOOLS.goals[:2][::-1] in orders
    assert {edited(Spec(TOOLS.goals[:1]), TOOLS, rng).ask for _ in range(200)} == {None, *TOOLS.lookups}


def test_path_becomes_a_pointer_and_an_unknown_model_is_a_one_line_error(tmp_path: Path) -> None:
    first = hardly_trained(TOOLS, tmp_path, 2)
    start(tmp_path / "path", str(first), None, WORLD, TASKS, "key")
    model = tmp_path / "path" / helper_model.WHOLE
    assert [file.name for file in model.iterdir()] == ["pretrained.json"] and knows_specs(model)
    assert not knows_specs(POLICY)
    with pytest.raises(CoevolveError, match=r"generate\.model: .*no/such-model"):
        start(tmp_path / "lost", "no/such-model", None, WORLD, TASKS, "key")


def test_tiny_generator_is_made_once_per_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Tools] = []

    def make(tools: Tools, folder: Path) -> None:
        made.append(tools)
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"weights")

    monkeypatch.setattr(initial, "make", make)
    monkeypatch.setattr(initial, "scratch", lambda: tmp_path / "scratch")
    for name, key in (("one", "a"), ("two", "a"), ("other", "b")):
        start(tmp_path / name, "tiny", None, WORLD, TASKS, key)
        assert (tmp_path / name / helper_model.WHOLE / "model.safetensors").read_bytes() == b"weights"
    assert made == [TOOLS] * 2
