from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.task import Task
from coevolve.stages.train.curriculum import stream

TASKS = [Task.create("miniworld", "seed", [str(number)], {}, []) for number in range(23)]


@given(st.integers(1, 30), st.integers(0, 50), st.integers(0, 5))
def test_a_step_draws_every_task_once(count: int, step: int, seed: int) -> None:
    drawn = [task.task_id for task in stream(TASKS, count, seed, 0, step)]
    assert sorted(drawn) == sorted(task.task_id for task in TASKS)
    assert drawn == [task.task_id for task in stream(TASKS, count, seed, 0, step)]


def test_visits_are_even() -> None:
    visits = [task.task_id for step in range(23) for task in islice(stream(TASKS, 5, 0, 0, step), 5)]
    counts = [visits.count(task.task_id) for task in TASKS]
    assert sum(counts) == 23 * 5
    assert min(counts) >= 3
    assert max(counts) <= 7


def test_iterations_and_seeds_differ() -> None:
    orders = {tuple(task.task_id for task in stream(TASKS, 5, seed, t, 0)) for seed in range(2) for t in range(2)}
    assert len(orders) == 4
