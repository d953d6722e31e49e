"""The signals that requests use, and how requests weigh tools."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Signal
from coevolve.environments.knowledge import uses
from coevolve.stages.explore.guidance import sample, seldom, weight
from coevolve.stages.explore.requests import Request, requests
from tests.unit.stages.train.small import PARAMS, WORLD

TOOLS = {"common": 0.1, "seldom": 0.5}
TASKS = WORLD.tasks("seed")[:32]
SIGNALS = [
    Signal("forgotten", "forgetting", 0, TASKS[0].task_id, None, 1.0, {}, []),
    Signal("mixed", "boundary", 0, TASKS[1].task_id, None, 0.5, {}, []),
    Signal("solved", "boundary", 0, TASKS[2].task_id, None, 0.0, {}, []),
]


def of_task(strength: float) -> Signal:
    return Signal("s", "boundary", 0, "task", None, strength, {}, [])


def of_pattern(strength: float, *pattern: str) -> Signal:
    return Signal("s", "rare", 0, None, list(pattern), strength, {}, [])


CONFIG = PARAMS.explore.model_copy(update={"explorations": 48, "tries": 6})


def made(guidance: str = "signals") -> list[Request]:
    config = CONFIG.model_copy(update={"guidance": guidance})
    return requests(WORLD, TASKS, [], SIGNALS, config, 0, 0)


@given(st.lists(st.integers(0, 100), max_size=20), st.integers(0, 64), st.integers(0, 99))
def test_sample_is_proportional_to_the_weights_within_one(weights: list[int], count: int, seed: int) -> None:
    drawn = sample(weights, count, random.Random(seed))
    assert len(drawn) == count
    if sum(weights) <= 0.0:
        assert set(drawn) <= {None}
        return
    found = Counter(drawn)
    for place, one in enumerate(weights):
        assert abs(found[place] - count * one / sum(weights)) < 1.0 + 1e-9


def test_seldom_used_tools_weigh_more_and_pairs_less() -> None:
    assert weight(of_task(0.5), ["common"], TOOLS, 3) == 0.5 * 0.1
    assert weight(of_task(0.5), ["common", "seldom"], TOOLS, 3) == 0.5 * 0.5
    assert weight(of_pattern(0.75, "seldom", "common"), ["seldom", "common"], TOOLS, 3) == 0.75 * 0.5 / 3
    assert weight(of_task(0.5), [], TOOLS, 3) == 0.5 and weight(of_task(0.5), ["unlisted"], TOOLS, 3) == 0.5
    assert [seldom(uses) for uses in (0, 1, 9)] == [1.0, 0.5, 0.1]


def test_signals_share_the_requests_and_strong_ones_get_more() -> None:
    around = Counter(request.signal.signal_id for request in made() if request.signal)
    assert around["forgotten"] > around["mixed"] > 0
    assert around["solved"] == 0 and around.total() == 48
    for request in made():
        assert request.task in TASKS[:2] and request.focus == request.task.tools == request.weakness


@pytest.mark.parametrize("guidance", ["coverage", "random"])
def test_baselines_know_nothing_of_the_agent(guidance: str) -> None:
    found = made(guidance)
    assert len(found) == 48
    assert all(request.signal is None and not request.focus and not request.weakness for request in found)
    assert len({request.task.task_id for request in found}) > 8


def test_tools_are_weighted_by_rarity_or_evenly() -> None:
    asked = uses(TASKS)
    names = [tool["function"]["name"] for tool in WORLD.tools()]
    for guidance in ("signals", "coverage"):
        assert made(guidance)[0].tools == {name: 1.0 / (1 + asked[name]) for name in names}
    assert made("random")[0].tools == dict.fromkeys(names, 1.0)
