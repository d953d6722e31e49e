"""The tasks that a step draws, for each curriculum."""

import random
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.learnability import Record, recorded
from coevolve.core.records import Attempt
from coevolve.core.task import Provenance, Task
from coevolve.stages.train.curriculum import CURRICULA, Step, stream
from tests.unit.stages.train.small import CONFIG


def made(iteration: int | None, number: int) -> Task:
    provenance = None if iteration is None else Provenance(iteration, [], "e")
    return Task.create("miniworld", "seed", [f"{iteration} {number}"], {}, [], provenance=provenance)


TASKS = [made(None, number) for number in range(23)]
NAMES = [task.task_id for task in TASKS]


def names(
    step: Step, records: dict[str, Record] | None = None, tasks: list[Task] = TASKS, **changes: object
) -> list[str]:
    config = CONFIG.model_copy(update=changes)
    return [task.task_id for task in stream(tasks, records or {}, config, step)]


attempted = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(st.integers(0, 8), st.integers(0, 8)).map(lambda pair: Record(min(pair), max(pair))),
)


@given(st.sampled_from(sorted(CURRICULA)), attempted, st.integers(1, 30), st.integers(0, 50), st.integers(0, 5))
def test_step_draws_every_task_once_and_deterministically(
    curriculum: str, records: dict[str, Record], count: int, number: int, seed: int
) -> None:
    step = Step(seed, 1, number, count)
    drawn = names(step, records, curriculum=curriculum)
    assert sorted(drawn) == sorted(NAMES)
    assert drawn == names(step, dict(sorted(records.items())), curriculum=curriculum)


@pytest.mark.parametrize("curriculum", sorted(CURRICULA))
def test_orders_differ_between_iterations_and_seeds(curriculum: str) -> None:
    orders = {tuple(names(Step(seed, t, 0, 5), curriculum=curriculum)) for seed, t in product(range(2), range(2))}
    assert len(orders) == 4


def test_even_curriculum_visits_tasks_evenly() -> None:
    visits = Counter(name for number in range(23) for name in names(Step(0, 0, number, 5))[:5])
    assert sum(visits.values()) == 23 * 5
    assert set(visits) == set(NAMES) and max(visits.values()) - min(visits.values()) <= 4


def test_learnable_curriculum_tries_every_task_once_first() -> None:
    records: dict[str, Record] = {}
    for number in range(4):
        drawn = names(Step(0, 0, number, 6), records, curriculum="learnable")[:6]
        assert not set(drawn) & set(records) or len(records) + 6 > len(NAMES)
        records = recorded(records, [Attempt(name, 0, number, 0.0, 8, 0) for name in drawn])
    assert set(records) == set(NAMES)


def test_learnable_curriculum_prefers_half_solved_tasks_and_omits_none() -> None:
    records = dict(zip(NAMES, [Record(0, 8)] * 8 + [Record(4, 8)] * 7 + [Record(8, 8)] * 8, strict=True))
    visits = Counter(name for n in range(400) for name in names(Step(0, 0, n, 4), records, curriculum="learnable")[:4])
    assert set(visits) == set(NAMES), "what seems settled is seen again"
    never, half, always = (sum(visits[name] for name in part) for part in (NAMES[:8], NAMES[8:15], NAMES[15:]))
    # weights 0.1 + 0.36 for all of 0 or 8, and 1.1 for 4 of 8; without replacement the difference shrinks a little
    assert 1.8 < half / 7 / (never / 8) < 2.5 and 0.8 < never / always < 1.25


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_tasks_that_the_environment_fails_take_only_their_share_of_slots(chance: float) -> None:
    """For any skill of the agent at the other tasks."""
    rng, unsound = random.Random(0), set(NAMES[:8])
    records: dict[str, Record] = {}
    visits: Counter[str] = Counter()
    for number in range(200):
        drawn = names(Step(0, 0, number, 4), records, curriculum="learnable")[:4]
        visits.update(drawn)
        solved = {name: sum(rng.random() < chance for _ in range(8)) for name in drawn}
        sizes = {name: 0 if name in unsound else 8 for name in drawn}
        attempts = [Attempt(name, 0, number, 0.0, sizes[name], sizes[name] and solved[name]) for name in drawn]
        records = recorded(records, attempts)
    slots, share = 800, 8 / len(NAMES)
    deviation = 4 * (slots * share * (1 - share)) ** 0.5  # of a binomial distribution
    assert sum(visits[name] for name in unsound) <= slots * share + deviation + 4
    assert set(visits) == set(NAMES) and not any(records[name].attempts for name in unsound)
