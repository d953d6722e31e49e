"""How signals share an iteration's explorations."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Signal
from coevolve.stages.explore.guidance import sample, weight

USES = {"common": 9, "seldom": 1}


def of_task(strength: float) -> Signal:
    return Signal("s", "boundary", 0, "task", None, strength, {}, [])


def of_pattern(strength: float, *pattern: str) -> Signal:
    return Signal("s", "rare", 0, None, list(pattern), strength, {}, [])


@given(st.lists(st.integers(0, 100), max_size=20), st.integers(0, 64), st.integers(0, 99))
def test_a_sample_is_in_proportion_to_the_weights_to_within_one(weights: list[int], count: int, seed: int) -> None:
    drawn = sample(weights, count, random.Random(seed))
    assert len(drawn) == count
    if sum(weights) <= 0.0:
        assert set(drawn) <= {None}
        return
    found = Counter(drawn)
    for place, one in enumerate(weights):
        assert abs(found[place] - count * one / sum(weights)) < 1.0 + 1e-9


def test_what_the_dataset_seldom_asks_for_weighs_more_and_pairs_less() -> None:
    assert weight(of_task(0.5), ["common"], USES, 3) == 0.5 / 10
    assert weight(of_task(0.5), ["common", "seldom"], USES, 3) == 0.5 / 2
    assert weight(of_pattern(0.75, "seldom", "common"), ["seldom", "common"], USES, 3) == 0.75 / 2 / 3
    assert weight(of_task(0.5), [], USES, 3) == 0.5
