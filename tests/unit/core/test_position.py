"""A run says where it is, in the order in which DVC runs the stages, and what is left by what it measured."""

from types import SimpleNamespace

import pytest

from coevolve.core.pipeline import Iteration, steps
from coevolve.core.position import ordered, position, time_left
from coevolve.core.stage_seconds import note_seconds
from tests import ROOT

PARAMS = SimpleNamespace(iterations=[Iteration(t=t, next=t + 1) for t in range(3)])


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))


def test_a_step_comes_after_all_that_it_reads() -> None:
    order = ordered(list(steps(PARAMS.iterations)))
    assert len(order) == len(list(steps(PARAMS.iterations)))
    written: set[str] = set()
    made = {out for step in order for out in step.outs}
    for step in order:
        assert {dep for dep in step.deps if dep in made} <= written | set(step.outs), step
        written |= set(step.outs)


def test_a_stage_says_where_it_is() -> None:
    total = len(list(steps(PARAMS.iterations)))
    assert position(PARAMS, "report") == f"stage {total} of {total}: report"
    assert position(PARAMS, "evaluate", 1).endswith("evaluate, iteration 1 of 3")
    assert "train, iteration 2 of 3" in position(PARAMS, "train", 1)
    assert position(PARAMS, "unknown") == "unknown"


def test_the_time_left_is_known_when_every_stage_has_run_once() -> None:
    keys: list[tuple[str, int | None]] = [("train", 0), ("train", 1), ("report", None)]
    assert time_left(keys, {}) is None
    assert time_left(keys, {"train/0": 60.0}) is None
    assert time_left(keys, {"train/0": 60.0, "report": 5.0}) == 125.0, "one iteration takes as long as another"
    assert time_left([], {}) == 0
    for step in steps(PARAMS.iterations):
        note_seconds("/".join(str(part) for part in (step.stage, step.t) if part is not None), 20.0)
    assert position(PARAMS, "report").endswith("about a minute left")
    assert "min left" in position(PARAMS, "tasks")
