"""The training tasks that nobody imitates: fixed, of every kind, and none without a measure."""

from collections import Counter

from coevolve.core.seeding import rng_for
from coevolve.stages.base.held_out import divided
from coevolve.stages.base.own import weaknesses
from tests.unit.stages.base.shop import Shop


def test_every_kind_of_task_is_imitated_and_held_out() -> None:
    imitated, held = divided(Shop(), "seed", 256)
    assert [len(imitated), len(held)] == [19, 5] and not {t.task_id for t in imitated} & {t.task_id for t in held}
    assert set(Counter(tuple(task.tools) for task in held)) == {("find",), ("find", "pay")}
    assert divided(Shop(), "seed", 256) == (imitated, held)


def test_single_task_is_in_both_parts_and_without_a_measure_all_are_imitated() -> None:
    assert [len(part) for part in divided(Shop(), "seed", 1)] == [1, 1]
    assert [len(part) for part in divided(Shop(), "seed", 256, hold=False)] == [24, 0]


def test_weak_kinds_leave_half_of_the_tasks_solved() -> None:
    tasks = Shop().tasks("seed")
    for seed in range(20):
        solved = [rng_for("solved", seed, number).random() < 0.8 for number in range(len(tasks))]
        weak = weaknesses(tasks, solved, seed)
        left = sum(yes for task, yes in zip(tasks, solved, strict=True) if tuple(task.tools) not in weak)
        assert left >= len(tasks) / 2 and weak == weaknesses(tasks, solved, seed)
    assert weaknesses(tasks, [False] * len(tasks), 0) == set()
    assert weaknesses(tasks, [True] * len(tasks), 0)
