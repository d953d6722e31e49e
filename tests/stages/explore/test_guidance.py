"""How signals share an iteration's explorations."""

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Signal, SignalKind
from coevolve.stages.explore.guidance import sample, strength, weight

USES = {"common": 9, "seldom": 1}


def boundary(latest_success: float) -> Signal:
    return Signal("s", SignalKind.BOUNDARY, 0, "task", None, {"latest_success": latest_success}, [])


def rare(*pattern: str, count: int = 1) -> Signal:
    evidence = {"order": len(pattern), "count": count, "total": 200, "threshold": 2.0}
    return Signal("s", SignalKind.RARE, 0, None, list(pattern), evidence, [])


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


def test_the_weaker_the_agent_the_stronger_the_signal() -> None:
    forgotten = Signal("s", SignalKind.FORGETTING, 0, "task", None, {}, [])
    assert strength(forgotten) == 1.0
    assert (strength(boundary(0.25)), strength(boundary(1.0))) == (0.75, 0.0)
    assert (strength(rare("seldom", count=1)), strength(rare("seldom", count=3))) == (0.75, 0.25)


def test_what_the_dataset_seldom_asks_for_weighs_more_and_pairs_less() -> None:
    assert weight(boundary(0.5), ["common"], USES, 3) == 0.5 / 10
    assert weight(boundary(0.5), ["common", "seldom"], USES, 3) == 0.5 / 2
    assert weight(rare("seldom", "common"), ["seldom", "common"], USES, 3) == 0.75 / 2 / 3
    assert weight(boundary(0.5), [], USES, 3) == 0.5
