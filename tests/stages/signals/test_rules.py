"""The rules against brute-force oracles that follow the definitions word by word."""

from hypothesis import given
from hypothesis import strategies as st

from coevolve.stages.signals.boundary import boundary
from coevolve.stages.signals.forgetting import forgetting
from coevolve.stages.signals.rare import patterns, rare

scores = st.lists(st.sampled_from([0.0, 0.25, 0.4999, 0.5, 0.75, 1.0]), max_size=30)
names = st.lists(st.lists(st.sampled_from("abcd"), max_size=8), max_size=12)


@given(scores, st.integers(2, 12))
def test_forgetting_is_a_success_in_the_window_and_a_failure_now(values: list[float], window: int) -> None:
    expected = []
    for now in range(len(values)):
        seen = values[max(0, now - window + 1) : now + 1]
        expected.append(any(score >= 0.5 for score in seen[:-1]) and seen[-1] < 0.5)
    assert list(forgetting(values, window)) == expected


def test_forgetting_by_hand() -> None:
    assert list(forgetting([1, 0, 0, 0], 3)) == [False, True, True, False]
    assert list(forgetting([0.5, 0.49], 2)) == [False, True]
    assert list(forgetting([0, 0], 2)) == [False, False]


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_boundary_is_both_outcomes_in_one_group(outcomes: list[bool]) -> None:
    assert boundary(len(outcomes), sum(outcomes)) == (True in outcomes and False in outcomes)


@given(names, st.integers(1, 2), st.sampled_from([0.0, 1.0, 10.0, 25.0, 50.0, 100.0]))
def test_rare_is_present_and_below_theta_percent(calls: list[list[str]], order: int, threshold: float) -> None:
    every = [tuple(t[i : i + order]) for t in calls for i in range(len(t)) if i + order <= len(t)]
    expected = {p for p in every if every.count(p) > 0 and every.count(p) * 100 < threshold * len(every)}
    found = rare(patterns(calls, order), threshold)
    assert set(found) == expected and len(found) == len(expected)
    assert found == sorted(found, key=lambda p: (every.count(p), p))


def test_a_share_of_exactly_theta_is_not_rare() -> None:
    assert rare({("a",): 2, ("b",): 98}, 2.0) == []
    assert rare({("a",): 2, ("b",): 99}, 2.0) == [("a",)]
