"""The power of a number of seeds, checked by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from coevolve.studies.plan import POWER, deviation, in_turns, sight
from coevolve.studies.study_results import Result


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_power_matches_simulation(seeds: int) -> None:
    one = sight(0.046, seeds)
    assert one.half == pytest.approx(t.ppf(0.975, seeds - 1) * 0.046 / np.sqrt(seeds))
    gains = np.random.default_rng(0).normal(one.smallest, 0.046, (20_000, seeds))
    error = gains.std(axis=1, ddof=1) / np.sqrt(seeds)
    seen = gains.mean(axis=1) > t.ppf(0.975, seeds - 1) * error
    assert seen.mean() == pytest.approx(POWER, abs=0.01)


@given(arms=st.integers(1, 4), jobs=st.integers(1, 4), blocks=st.integers(1, 3), rest=st.integers(0, 3))
def test_parallel_runs_have_different_seeds(arms: int, jobs: int, blocks: int, rest: int) -> None:
    seeds = range(blocks * jobs + rest)
    runs = [(str(arm), seed) for seed in seeds for arm in range(arms)]
    ordered = in_turns(runs, jobs)
    assert sorted(ordered) == sorted(runs)
    full = ordered[: blocks * jobs * arms]  # a rest of fewer seeds than jobs cannot be apart
    assert all(len({seed for _, seed in full[at : at + jobs]}) == jobs for at in range(len(full) - jobs + 1))


def test_deviation_is_of_differences_paired_by_seed() -> None:
    def run(arm: str, seed: int, last: float) -> Result:
        return Result(arm, seed, {"test": [0.1, last]}, {}, [])

    bumpy = [run("a", 0, 0.2), run("a", 1, 0.8), run("b", 0, 0.3), run("b", 1, 0.9)]
    assert deviation(bumpy, "test") == (pytest.approx(0.0), 1)  # seeds move both arms alike
    assert deviation([*bumpy, run("c", 0, 0.2), run("c", 1, 0.9)], "test") == (
        pytest.approx(np.sqrt((0.0 + 0.005 + 0.005) / 3)),
        3,
    )
    assert deviation(bumpy[:2], "test") is None
    assert deviation([run("a", 0, 0.2), run("b", 1, 0.2)], "test") is None
    assert deviation(bumpy, "hard") is None
