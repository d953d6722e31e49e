"""Bootstrap intervals over tasks and over kinds of tasks."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from coevolve.core.statistics import KINDS, bootstrap


@dataclass(frozen=True)
class Config:
    bootstrap: int = 2000
    confidence: float = 0.95


def width(interval: tuple[float, float]) -> float:
    return interval[1] - interval[0]


def names(kinds: int, tasks: int) -> list[str]:
    return [f"kind {kind}" for kind in range(kinds) for _ in range(tasks)]


@settings(max_examples=8, deadline=None)
@given(st.integers(KINDS, 30), st.integers(4, 12), st.integers(0, 9))
def test_kinds_that_are_all_alike_give_nearly_the_interval_over_tasks(kinds: int, tasks: int, seed: int) -> None:
    values = [float(task < tasks // 2) for _ in range(kinds) for task in range(tasks)]
    plain = width(bootstrap(values, Config(), seed))
    assert 0.85 * plain < width(bootstrap(values, Config(), seed, names(kinds, tasks))) < 1.15 * plain


@settings(max_examples=8, deadline=None)
@given(st.integers(KINDS, 30), st.integers(4, 12), st.integers(0, 9))
def test_kinds_that_are_won_whole_give_the_interval_over_as_many_tasks(kinds: int, tasks: int, seed: int) -> None:
    """The tasks of a kind say no more than one of them."""
    values = [float(kind % 2) for kind in range(kinds) for _ in range(tasks)]
    single = width(bootstrap(values[::tasks], Config(), seed))
    assert 0.85 * single < width(bootstrap(values, Config(), seed, names(kinds, tasks))) < 1.15 * single


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, KINDS - 2)), min_size=1, max_size=60), st.integers(0, 9))
def test_a_few_kinds_are_strata_and_do_not_count(played: list[tuple[int, int]], seed: int) -> None:
    values, kinds = [float(value) for value, _ in played], [str(kind) for _, kind in played]
    assert bootstrap(values, Config(200), seed, kinds) == bootstrap(values, Config(200), seed)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 14)), min_size=30, max_size=90), st.integers(0, 9))
def test_an_interval_depends_on_the_kinds_and_not_on_their_names_or_order(
    played: list[tuple[int, int]], seed: int
) -> None:
    values, kinds = [float(value) for value, _ in played], [f"{kind:02}" for _, kind in played]
    low, high = bootstrap(values, Config(300), seed, kinds)
    assert 0.0 <= low <= high <= 1.0
    assert (low, high) == bootstrap(values, Config(300), seed, kinds)
    assert (low, high) == bootstrap(values, Config(300), seed, [f"a{kind}" for kind in kinds])
