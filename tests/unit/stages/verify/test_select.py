"""Over-generate and select: kept tasks, reasons for the others, and a floor for variety."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.records import Attempt, Gate, Verdict
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.stages.verify.config import Select
from coevolve.stages.verify.judge import Judged, PassCount
from coevolve.stages.verify.select import GATE, UNSOLVED, check_left, notes, select, solved_kinds

SAMPLES = 4


def judged(rates: list[float | None], families: str = "", accepted: bool = True, chains: str = "") -> list[Judged]:
    """Candidates with these pass rates in SAMPLES episodes, none of which counts for None. The letter names each candidate's family; ``chains`` name its calls by letters."""
    found: list[Judged] = []
    for number, rate in enumerate(rates):
        family = families[number] if families else str(number)
        calls = [ToolCall(letter) for letter in chains.split()[number]] if chains else []
        task = Task.create("e", "synthesized", [f"do {number}"], {}, [calls], [family])
        verdict = Verdict(f"c{number}", task.task_id, accepted, [Gate("readable", True)], rate)
        count = PassCount(0, 0, SAMPLES) if rate is None else PassCount(round(rate * SAMPLES), SAMPLES, SAMPLES)
        found.append(Judged(verdict, task, count=count if accepted else None))
    return found


def unmeasured(found: list[Judged]) -> list[Judged]:
    return [replace(one, count=None) for one in found]


def kept(found: list[Judged]) -> list[str]:
    return [one.verdict.candidate_id for one in found if one.verdict.accepted]


def config(keep: int, variety: float = 0.0, shape: str = "variance", unsolved: bool = False) -> Select:
    return Select(shape=shape, keep=keep, variety=variety, unsolved=unsolved)


def test_half_solved_tasks_are_kept_and_others_state_a_reason() -> None:
    found = select(judged([0.0, 0.5, 1.0, 0.25, None, 0.75]), config(3))
    assert kept(found) == ["c1", "c3", "c5"]
    last = {verdict.candidate_id: verdict.gates[-1] for verdict, _ in found}
    assert all(gate.name == GATE for gate in last.values())
    assert last["c2"] == Gate(GATE, False, "pass rate 1.00: others are worth more than 0.56")  # 4 · 5/6 · 1/6
    assert last["c4"] == Gate(GATE, False, "pass rate unknown: others are worth more than 0.00")
    assert last["c1"] == Gate(GATE, True, "")


def test_first_of_equal_tasks_is_kept_and_keep_may_exceed_the_candidates() -> None:
    assert kept(select(judged([0.5] * 4), config(2))) == ["c0", "c1"]
    assert kept(select(judged([0.0, 1.0]), config(9))) == ["c0", "c1"]
    assert select([], config(9)) == []


def test_variety_takes_the_best_of_each_family_first() -> None:
    candidates = judged([0.5, 0.5, 0.5, 0.25, 0.0, 1.0], families="aaabbc")
    assert kept(select(candidates, config(3))) == ["c0", "c1", "c2"]
    assert kept(select(candidates, config(3, variety=1.0))) == ["c0", "c3", "c5"]
    assert kept(select(candidates, config(4, variety=0.5))) == ["c0", "c1", "c2", "c3"]


def test_variety_alternates_tools_first_calls_and_chains() -> None:
    candidates = judged([0.5] * 6, chains="sa sab sb sc la lb")
    assert kept(select(candidates, config(3))) == ["c0", "c1", "c2"]
    assert kept(select(candidates, config(3, variety=1.0))) == ["c0", "c1", "c5"]  # after sa, lb shares nothing


def test_unsolved_task_is_kept_only_if_its_kind_was_solved() -> None:
    candidates = judged([0.0, 0.0, 0.0, 0.5], chains="ab c d ba")
    found = select(candidates, config(9), solved={frozenset("d")})
    assert kept(found) == ["c0", "c2", "c3"]  # c3 has the tools of c0
    assert found[1].verdict.gates[-1] == Gate(GATE, False, UNSOLVED)
    assert notes(found, 9, 4) == [
        "3 of at most 9 tasks are kept: the policy solves none of 1 others, and never solved a task with the same tools "
        "(verify.select.unsolved keeps them)"
    ]
    for few in (2, 6):
        assert notes(select(candidates, config(few), {frozenset("d")}), few, 4) == [], "half of the quota is enough"
    assert len(kept(select(candidates, config(9, unsolved=True)))) == 4
    assert notes(select(candidates, config(3, unsolved=True)), 9, 4) == []
    assert kept(select(candidates[:3], config(9))) == []


def test_run_ends_with_the_ways_on_if_no_task_is_left() -> None:
    with pytest.raises(
        CoevolveError, match=r"data/2/verified: no new task is left, .* policies/3 solves none of 7"
    ) as caught:
        check_left(2, 7, 0)
    ways = (
        "data/2/candidates.jsonl",
        "env phrases",
        "train.steps",
        "warm.steps",
        "base.model",
        "select.unsolved: true",
    )
    assert all(way in str(caught.value) for way in ways) and "\n" not in str(caught.value)
    check_left(2, 0, 0)  # the gates left nothing to measure
    check_left(2, 7, 1)


def test_unmeasured_tasks_are_not_unsolved() -> None:
    candidates = judged([None, None], chains="a b")
    assert len(kept(select(candidates, config(9)))) == len(kept(select(unmeasured(candidates), config(9)))) == 2


def test_kind_is_solved_by_an_attempt_or_by_a_measured_pass_rate() -> None:
    tasks = [Task.create("e", "seed", [name], {}, [[ToolCall(name)]], [name]) for name in "abc"]
    origin = Provenance(0, [], "x", pass_rate=0.25)
    tasks.append(replace(tasks[0], task_id="made", reference=[[ToolCall("a"), ToolCall("d")]], provenance=origin))
    attempts = [Attempt(tasks[0].task_id, 0, 0, 0.5, 2, 1), Attempt(tasks[1].task_id, 0, 0, 0.0, 2, 0)]
    assert solved_kinds(tasks, attempts) == {frozenset("a"), frozenset("ad")}


def test_note_names_what_most_kept_tasks_share() -> None:
    def said(chains: str, tools: int = 5) -> list[str]:
        count = len(chains.split())
        return notes(select(judged([0.5] * count, chains=chains), config(20)), 20, tools)

    assert said("sa " * 4 + "sb " * 4 + "sc") == ["9 of 9 kept tasks begin with s"]
    assert said("sa " * 8 + "b") == ["8 of 9 kept tasks consist of s, then a"]
    assert said("sa " * 6 + "b c d") == said("sa " * 8) == said("a " * 9, tools=1) == []


def test_shape_decides_the_worth() -> None:
    for shape, worth in (("variance", "0.56"), ("bell", "0.41")):  # at p = 1/6
        [(refused, _), _] = select(judged([0.0, 0.5]), config(1, shape=shape))
        assert refused.gates[-1] == Gate(GATE, False, f"pass rate 0.00: others are worth more than {worth}")


def test_earlier_refusals_stay_unchanged() -> None:
    refused = judged([None, None], accepted=False)
    unreadable = [Judged(Verdict("c9", None, False, [Gate("readable", False, "no JSON")]))]
    assert select([*refused, *unreadable], config(2)) == [*refused, *unreadable]


def test_duplicate_of_a_kept_task_stays_refused() -> None:
    [one] = judged([0.5])
    again = Judged(Verdict("again", one.verdict.task_id, False, [Gate("duplicate", False, "known")]), one.task)
    assert select([one, again], config(2))[1] == again


rates = st.lists(st.sampled_from([None, 0.0, 0.25, 0.5, 0.75, 1.0]), max_size=20)


@given(rates, st.integers(1, 25), st.sampled_from([0.0, 0.3, 1.0]), st.data())
def test_selection_keeps_the_wanted_number_and_every_family_with_room(
    found: list[float | None], keep: int, variety: float, data: st.DataObject
) -> None:
    families = "".join(data.draw(st.sampled_from("abc")) for _ in found)
    selected = select(judged(found, families), config(keep, variety, unsolved=True))
    assert len(kept(selected)) == min(keep, len(found))
    if round(keep * variety) >= len(set(families)):
        assert {task.family for verdict, task in selected if verdict.accepted and task} == set(families)
