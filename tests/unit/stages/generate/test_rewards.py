"""Rewards and weights of generations against hand computation, and their invariants."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Generation
from coevolve.stages.generate.rewards import chances, effective, rewards, weights
from tests.unit.stages.train.small import PARAMS

OWN = PARAMS.generate


def generation(name: str, successes: int, episodes: int = 8, iteration: int = 0, seed: str = "s") -> Generation:
    accepted = "accepted" if episodes else "unrealized"
    task = f"task {name}" if episodes else None
    return Generation(name, iteration, seed, "", "", ["pay"], None, accepted, task, successes, episodes)


def test_reward_and_weight_match_hand_computation() -> None:
    some = [generation("never", 0), generation("half", 4), generation("always", 8), generation("none", 0, 0)]
    assert chances(some, "task") == {"never": 0.1, "half": 0.5, "always": 0.9}
    paid = rewards(some, OWN)
    assert paid["half"] == 1.0 and paid["never"] == pytest.approx(math.exp(-8 * 0.16)) == paid["always"]
    found = weights(some, OWN, 1)
    assert set(found) == {"never", "half", "always"}
    assert found["half"] == 1.0 and found["never"] == pytest.approx(math.exp(5 * (math.exp(-1.28) - 1)))


def test_batch_unit_shares_the_mean_success_rate() -> None:
    some = [generation("a", 0), generation("b", 8), generation("c", 8, seed="other"), generation("d", 0, 0)]
    assert chances(some, "batch") == {"a": 0.5, "b": 0.5, "c": 0.9}


def test_old_generations_count_less_and_those_outside_the_band_not_at_all() -> None:
    own = OWN.model_copy(update={"band": 0.25, "discount": 0.5})
    some = [generation("new", 4, iteration=2), generation("old", 4, iteration=0), generation("far", 8, iteration=2)]
    assert weights(some, own, 3) == {"new": 1.0, "old": 0.25}
    forgotten = own.model_copy(update={"discount": 0.0})
    assert weights(some, forgotten, 3) == {"new": 1.0}


def test_effective_sample_matches_hand_computation() -> None:
    assert effective({}) is None
    assert effective({"a": 2.0, "b": 2.0}) == 1.0
    assert effective({"a": 3.0, "b": 1.0}) == pytest.approx(16 / 10 / 2)


outcomes = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 3)), max_size=20)


@given(outcomes, st.sampled_from(["task", "batch"]), st.floats(0.0, 50.0), st.floats(0.1, 50.0))
def test_weights_hold_their_invariants(rows: list[tuple[int, int, int]], unit: str, scale: float, beta: float) -> None:
    own = OWN.model_copy(update={"unit": unit, "inverse_temperature": scale, "beta": beta})
    some = [generation(str(n), min(k, size), size, t, f"s{n % 3}") for n, (k, size, t) in enumerate(rows)]
    found = weights(some, own, 4)
    assert set(found) <= {one.generation_id for one in some if one.episodes}
    assert all(0.0 < weight <= 1.0 for weight in found.values())
    size = effective(found)
    assert size is None or 1 / len(found) - 1e-9 <= size <= 1 + 1e-9
    ours = {one.generation_id: one for one in some}
    if unit == "task":
        for a in found:
            for b in found:
                one, other = (abs((ours[x].successes + 1) / (ours[x].episodes + 2) - 0.5) for x in (a, b))
                if one < other and ours[a].iteration >= ours[b].iteration:
                    assert found[a] >= found[b], "what is closer to alpha, and no older, weighs no less"
