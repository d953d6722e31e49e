"""Tokens that an arm needs to reach another arm's final level."""

import math

from hypothesis import given
from hypothesis import strategies as st

from coevolve.studies.study_results import tokens_table, tokens_to

shares = st.floats(0.0, 1.0)


def test_tokens_are_interpolated_and_infinite_if_never_reached() -> None:
    curve = ([0, 100, 300], [0.25, 0.5, 0.75])
    assert tokens_to(0.375, curve) == 50.0
    assert tokens_to(0.75, curve) == 300.0
    assert tokens_to(0.1, curve) == 0.0
    assert tokens_to(0.8, curve) == math.inf


@given(level=shares, success=st.lists(shares, min_size=2, max_size=6))
def test_tokens_lie_within_the_first_step_that_reaches_the_level(level: float, success: list[float]) -> None:
    tokens = [100 * t for t in range(len(success))]
    found = tokens_to(level, (tokens, success))
    reached = [t for t, one in enumerate(success) if one >= level]
    if not reached:
        assert found == math.inf
    else:
        assert max(0, 100 * (reached[0] - 1)) <= found <= 100 * reached[0]


def test_table_pairs_seeds_and_counts_runs_that_never_reach_the_level() -> None:
    random = {seed: ([0, 100, 200], [0.2, 0.3, 0.4]) for seed in range(3)}
    able = {0: ([0, 100], [0.2, 0.4]), 1: ([0, 50], [0.2, 0.4]), 9: ([0, 1], [0.2, 0.9])}
    weak = {seed: ([0, 100], [0.2, 0.3]) for seed in range(3)}
    lines = tokens_table({"random": random, "able": able, "weak": weak}, "random", "test")
    assert lines[-2:] == ["| able | 2 of 2 | 0.38 |", "| weak | 0 of 3 | more than it has |"]
    assert not tokens_table({"random": random}, "random", "test")
    assert not tokens_table({"able": able, "random": {5: ([0], [0.2])}}, "random", "test")
