"""Over-generate and select: what is kept, why the others are not, and that variety has a floor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.params import Select
from coevolve.core.records import Gate, Verdict
from coevolve.core.task import Task
from coevolve.stages.verify.judge import Judged
from coevolve.stages.verify.select import GATE, select

SAMPLES = 4


def judged(rates: list[float | None], families: str = "", accepted: bool = True) -> list[Judged]:
    """Candidates with these pass rates, each of the family that its letter names."""
    found: list[Judged] = []
    for number, rate in enumerate(rates):
        family = families[number] if families else str(number)
        task = Task.create("e", "synthesized", [f"do {number}"], {}, [], [family])
        found.append((Verdict(f"c{number}", task.task_id, accepted, [Gate("readable", True)], rate), task))
    return found


def kept(found: list[Judged]) -> list[str]:
    return [verdict.candidate_id for verdict, _ in found if verdict.accepted]


def config(keep: int, variety: float = 0.0, shape: str = "variance") -> Select:
    return Select(shape=shape, keep=keep, variety=variety)


def test_what_is_solved_about_half_the_time_is_kept_and_the_others_say_why() -> None:
    found = select(judged([0.0, 0.5, 1.0, 0.25, None, 0.75]), config(3), SAMPLES)
    assert kept(found) == ["c1", "c3", "c5"]
    last = {verdict.candidate_id: verdict.gates[-1] for verdict, _ in found}
    assert all(gate.name == GATE for gate in last.values())
    assert last["c2"] == Gate(GATE, False, "pass rate 1.00: others are worth more than 0.56")  # 4 · 5/6 · 1/6
    assert last["c4"] == Gate(GATE, False, "pass rate unknown: others are worth more than 0.00")
    assert last["c1"] == Gate(GATE, True, "")


def test_of_equals_the_first_and_never_more_than_there_are() -> None:
    assert kept(select(judged([0.5] * 4), config(2), SAMPLES)) == ["c0", "c1"]
    assert kept(select(judged([0.0, 1.0]), config(9), SAMPLES)) == ["c0", "c1"]
    assert select([], config(9), SAMPLES) == []


def test_variety_takes_the_best_of_each_family_first() -> None:
    candidates = judged([0.5, 0.5, 0.5, 0.25, 0.0, 1.0], families="aaabbc")
    assert kept(select(candidates, config(3), SAMPLES)) == ["c0", "c1", "c2"]
    assert kept(select(candidates, config(3, variety=1.0), SAMPLES)) == ["c0", "c3", "c5"]
    assert kept(select(candidates, config(4, variety=0.5), SAMPLES)) == ["c0", "c1", "c2", "c3"]


def test_the_shape_decides() -> None:
    for shape, worth in (("variance", "0.56"), ("bell", "0.41")):  # at p = 1/6
        [(refused, _), _] = select(judged([0.0, 0.5]), config(1, shape=shape), SAMPLES)
        assert refused.gates[-1] == Gate(GATE, False, f"pass rate 0.00: others are worth more than {worth}")


def test_what_was_refused_before_is_left_as_it_is() -> None:
    refused = judged([None, None], accepted=False)
    unreadable: list[Judged] = [(Verdict("c9", None, False, [Gate("readable", False, "no JSON")]), None)]
    assert select([*refused, *unreadable], config(2), SAMPLES) == [*refused, *unreadable]


def test_what_repeats_a_task_that_is_kept_stays_refused() -> None:
    [(verdict, task)] = judged([0.5])
    again = Verdict("again", verdict.task_id, False, [Gate("duplicate", False, "known")])
    assert select([(verdict, task), (again, task)], config(2), SAMPLES)[1] == (again, task)


rates = st.lists(st.sampled_from([None, 0.0, 0.25, 0.5, 0.75, 1.0]), max_size=20)


@given(rates, st.integers(1, 25), st.sampled_from([0.0, 0.3, 1.0]), st.data())
def test_as_many_as_are_wanted_and_with_variety_every_family_that_has_room(
    found: list[float | None], keep: int, variety: float, data: st.DataObject
) -> None:
    families = "".join(data.draw(st.sampled_from("abc")) for _ in found)
    selected = select(judged(found, families), config(keep, variety), SAMPLES)
    assert len(kept(selected)) == min(keep, len(found))
    if round(keep * variety) >= len(set(families)):
        assert {task.family for verdict, task in selected if verdict.accepted and task} == set(families)


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_order_of_what_is_kept_stays(keep: int) -> None:
    found = kept(select(judged([0.5, 0.0, 0.25, 0.75, 0.5]), config(keep), SAMPLES))
    assert found == sorted(found)
