"""The gate of `champion`: sure gains, few regressions, and a reason either way."""

from pathlib import Path

import pytest

from coevolve.core.io import write_jsonl
from coevolve.core.params import Evaluate
from coevolve.stages.evaluate import Outcome
from coevolve.stages.report.champion import contest, scores

CONFIG = Evaluate(tasks=128, temperature=0.0, bootstrap=500, confidence=0.95)
NAMES = ["policies/0", "policies/1", "policies/2", "policies/3"]


def solves(first: int, last: int) -> dict[str, float]:
    return {f"{n:016x}": float(first <= n < last) for n in range(128)}


def test_it_moves_by_sure_gains_alone() -> None:
    found = contest([solves(0, 60), solves(0, 90), solves(0, 92), solves(0, 40)], CONFIG, 0.25, 0, NAMES)
    assert found["policy"] == 1
    assert [one["taken"] for one in found["challenges"]] == [True, False, False]
    assert [one["holder"] for one in found["challenges"]] == [0, 1, 1]
    assert found["challenges"][0]["reason"].startswith("policies/1 takes it from policies/0: gain +0.234")
    assert "not surely positive" in found["challenges"][1]["reason"]


def test_a_gain_that_loses_too_much_does_not_count() -> None:
    both = [solves(0, 60), solves(20, 120)]
    refused = contest(both, CONFIG, 0.25, 0, NAMES)
    assert refused["policy"] == 0
    assert refused["challenges"][0]["lost"] == 20
    assert "lost more than 25%" in refused["challenges"][0]["reason"]
    assert "20 of 60 solved tasks lost" in refused["challenges"][0]["reason"]
    assert contest(both, CONFIG, 0.34, 0, NAMES)["policy"] == 1


@pytest.mark.parametrize("panel", ["validation", "test"])
def test_scores_are_of_one_panel(tmp_path: Path, panel: str) -> None:
    one = Outcome("validation", "a", "f", 1.0, True, "done", 4, 40, {})
    other = Outcome("test", "b", "f", 0.2, False, "done", 4, 40, {})
    write_jsonl(tmp_path / "outcomes.jsonl", [one, other])
    assert scores(tmp_path / "outcomes.jsonl", panel) == ({"a": 1.0} if panel == "validation" else {"b": 0.0})
