"""Main effects: what the changes of crossed arms did, against sums and intervals computed otherwise."""

import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from coevolve.studies.effects import ArmRun, crossed, effects
from coevolve.studies.study_results import load, report
from tests.unit.studies.test_study_results import run

GRID = {
    f"{guidance}_{keep}": {
        **({"explore.guidance": guidance} if guidance != "signals" else {}),
        **({"train.keep_base": keep} if keep else {}),
    }
    for guidance in ("signals", "random", "coverage")
    for keep in (0.0, 0.2)
}


@given(st.tuples(*[st.integers(-30, 30)] * 3), st.lists(st.integers(0, 50), min_size=1, max_size=4))
def test_what_adds_up_is_found_again(adds: tuple[int, int, int], starts: list[int]) -> None:
    worth = dict(
        zip(
            ("explore.guidance: random", "explore.guidance: coverage", "train.keep_base: 0.2"),
            adds,
            strict=True,
        )
    )
    runs = [
        ArmRun(changes, seed, start + sum(worth[f"{key}: {value}"] for key, value in changes.items()))
        for changes in GRID.values()
        for seed, start in enumerate(starts)
    ]
    found = {one.change: one for one in effects(runs)}
    assert found.keys() == worth.keys()
    assert {change: one.gain.mean for change, one in found.items()} == pytest.approx(worth, abs=1e-9)
    assert all(one.gain.half == pytest.approx(0.0, abs=1e-6) for one in found.values())
    assert found["train.keep_base: 0.2"].gain.count == 3 * len(starts)


def test_of_one_change_and_one_seed_it_is_students_two_samples() -> None:
    rng = random.Random(0)
    without, having = ([rng.gauss(mean, 1) for _ in range(4)] for mean in (0, 1))
    runs = [ArmRun({}, 0, value) for value in without] + [ArmRun({"a.b": 1}, 0, value) for value in having]
    (found,) = effects(runs)
    low, high = ttest_ind(having, without).confidence_interval(0.95)
    assert (found.gain.mean - found.gain.half, found.gain.mean + found.gain.half) == pytest.approx((low, high))


def test_what_changes_do_to_each_other_makes_them_unsure() -> None:
    both = [
        ArmRun({**({"a": 1} if a else {}), **({"b": 1} if b else {})}, 0, float(a and b))
        for a, b in itertools.product((0, 1), repeat=2)
    ]
    assert all(not one.gain.sure for one in effects(both))


def test_changes_that_no_run_tells_apart_are_one() -> None:
    pair = {"explore.explorations": 9, "verify.select": {"keep": 3}}
    runs = [ArmRun({**pair} if has else {}, seed, float(has) + seed) for has in (0, 1) for seed in (0, 1)]
    (one,) = effects(runs)
    assert one.change == 'explore.explorations: 9, verify.select: {"keep": 3}'
    assert (one.gain.count, one.gain.mean) == (2, pytest.approx(1.0))


@pytest.mark.parametrize(
    "runs",
    [
        [],
        [ArmRun({}, 0, 1.0)],
        [ArmRun({}, 0, 1.0), ArmRun({"a": 1}, 0, 2.0)],
        [ArmRun({"a": 1}, s, 1.0) for s in range(4)],
    ],
)
def test_of_too_few_runs_it_says_nothing(runs: list[ArmRun]) -> None:
    assert effects(runs) == []


def test_arms_are_read_together_whose_changes_others_have_too() -> None:
    alone = {
        "select": {"explore.guidance": "random", "verify.select": 1},
        "upfront": {"explore.guidance": "random", "explore.schedule": "upfront"},
    }
    assert crossed({**GRID, **alone}) == list(GRID)
    assert crossed({"signals": {}, **alone, "random": {"explore.guidance": "random"}}) == ["signals"]
    common = {arm: {"tasks.split": "broad", **changes} for arm, changes in GRID.items()}
    assert crossed(common) == list(GRID), "what all have is no difference"


def test_an_arm_that_overrides_what_is_common_has_one_change(tmp_path: Path) -> None:
    arms = "".join(f"  {arm}: {json.dumps(changes)}\n" for arm, changes in GRID.items())
    common = "common: {train.keep_base: 0.0, explore.guidance: signals, tasks.split: broad}\n"
    (tmp_path / "study.yaml").write_text(
        f"question: Why?\nseeds: [0, 1]\npanel: test\nagainst: []\n{common}arms:\n{arms}"
    )
    results = [run(arm, seed, 0.6 + 0.1 * ("0.2" in arm) + 0.01 * seed) for arm in GRID for seed in (0, 1)]
    text = report(load(tmp_path / "study.yaml"), results)
    assert "over 12 runs of arms that combine them" in text and "| train.keep_base: 0.2 | 6 | +10.0 ± 0.0* |" in text
