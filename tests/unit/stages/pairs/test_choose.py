"""Which episodes become pairs, and each expectation of pairs, broken alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.records import Pair
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.pairs.choose import (
    AMONG,
    EXPERT,
    EXPERT_HARD,
    OWN,
    OWN_HARD,
    check,
    choose,
    contrast,
)
from tests.unit.stages.train.small import PARAMS

CONFIG = PARAMS.pairs
PLAN = 0, 2  # seed and iteration


def episode(name: str, task: str, call: str, score: float) -> Trajectory:
    return Trajectory(name, task, 0, 0, 0, 0, [], [CallOutcome(call, {}, True)], score, StopReason.DONE)


RANKS = [0.0, 0.5, 0.85, 0.9, 0.95]
played = st.lists(
    st.tuples(st.sampled_from("tu"), st.sampled_from("abcdef"), st.booleans(), st.sampled_from(RANKS)), max_size=30
)
close = st.lists(st.tuples(st.sampled_from("tuv"), st.sampled_from("abcdef"), st.sampled_from(RANKS)), max_size=12)


@given(played, close, st.booleans(), st.integers(1, 5), st.sampled_from([0.0, 0.5, 1.0]))
def test_choices_hold_their_invariants(
    rows: list[tuple[str, str, bool, float]],
    others: list[tuple[str, str, float]],
    expert: bool,
    most: int,
    share: float,
) -> None:
    episodes = [episode(str(n), task, call, success) for n, (task, call, success, _) in enumerate(rows)]
    hard = [episode(f"h{n}", task, call, False) for n, (task, call, _) in enumerate(others)]
    ranks = {str(n): rank for n, (_, _, success, rank) in enumerate(rows) if not success}
    ranks |= {f"h{n}": rank for n, (_, _, rank) in enumerate(others)}
    references = {"t": episode("reference", "t", "a", True)}
    config = CONFIG.model_copy(update={"expert": expert, "per_task": most, "hard": share})
    pairs = choose(episodes, references, ranks, config, *PLAN, hard)
    assert pairs == choose(episodes, references, ranks, config, *PLAN, hard)
    known = {one.trajectory_id: one for one in [*episodes, *references.values(), *hard]}
    for one in pairs:
        chosen, rejected = known[one.chosen], known[one.rejected]
        assert chosen.task_id == rejected.task_id == one.task_id
        assert chosen.score == one.chosen_closeness == 1.0 and rejected.score == 0.0
        assert one.closeness == ranks[one.rejected] <= 1 - config.margin
        kinds = (EXPERT, EXPERT_HARD) if one.chosen == "reference" else (OWN, OWN_HARD)
        assert one.kind == kinds[one.rejected.startswith("h")]
    assert expert or all(one.kind in (OWN, OWN_HARD) for one in pairs)
    assert {one.task_id for one in pairs} <= {row[0] for row in rows}
    for task in "tu":
        ours = [one for one in pairs if one.task_id == task]
        assert len({known[one.rejected].calls[0].name for one in ours}) == len(ours) <= most, "no failure twice"
        right = {row[1] for row in rows if row[0] == task and row[2]} | ({"a"} if expert and task == "t" else set())
        theirs = {row[1] for row in others if row[0] == task and row[2] <= 0.9} - right
        wrong = {row[1] for row in rows if row[0] == task and not row[2] and row[3] <= 0.9} - right - theirs
        if not right or all(row[0] != task for row in rows):
            assert not ours
            continue
        assert len(ours) == min(most, len(wrong) + len(theirs))
        count = sum(one.rejected.startswith("h") for one in ours)
        assert count == min(len(theirs), max(round(most * share), most - len(wrong))), (
            "where one sort is short, the other"
        )
        chosen_calls = [known[one.chosen].calls[0].name for one in ours]
        assert len(set(chosen_calls)) == min(len(right), len(ours)), "right episodes take turns"


def test_failure_too_close_or_without_a_rank_makes_no_pair() -> None:
    references = {"t": episode("reference", "t", "a", True)}
    episodes = [episode("1", "t", "b", False), episode("2", "t", "c", False), episode("3", "t", "d", False)]
    (pair,) = choose(episodes, references, {"1": 0.95, "2": 0.9}, CONFIG, *PLAN)
    assert pair.rejected == "2"


@given(close, st.integers(1, 4))
def test_contrasts_hold_their_invariants(rows: list[tuple[str, str, float]], most: int) -> None:
    episodes = [episode(str(n), task, call, False) for n, (task, call, _) in enumerate(rows)]
    ranks = {str(n): rank for n, (_, _, rank) in enumerate(rows)}
    config = CONFIG.model_copy(update={"per_task": most})
    pairs = contrast(episodes, ranks, config, *PLAN)
    known = {one.trajectory_id: one for one in episodes}

    def calls(pair: Pair) -> list[str]:
        return [known[name].calls[0].name for name in (pair.chosen, pair.rejected)]

    for one in pairs:
        assert one.kind == AMONG and known[one.chosen].task_id == known[one.rejected].task_id == one.task_id
        assert (one.chosen_closeness, one.closeness) == (ranks[one.chosen], ranks[one.rejected])
        assert one.closeness <= one.chosen_closeness - config.margin
    for task in "tuv":
        ours = [one for one in pairs if one.task_id == task]
        assert len(ours) <= most
        assert len({name for one in ours for name in calls(one)}) == 2 * len(ours), "none is in two pairs"


def test_best_failure_is_paired_with_the_worst() -> None:
    episodes = [episode(call, "t", call, False) for call in "abcde"]
    ranks = {"a": 0.5, "b": 0.0, "c": 0.9, "d": 0.55, "e": 0.52}
    found = contrast(episodes, ranks, CONFIG, *PLAN)
    assert [(one.chosen, one.rejected) for one in found] == [("c", "b")], "0.55 and 0.5 are too much alike"


EPISODES = [
    episode("right", "t", "a", 1.0),
    episode("wrong", "t", "b", 0.2),
    episode("cut", "t", "a", 0.2),
    episode("other", "u", "b", 0.2),
    episode("more", "t", "c", 1.0),
    replace(episode("echo", "t", "d", 0.2), messages=[{"role": "assistant", "content": "ok"}] * 2, tokens=[3]),
]
PAIR = Pair("0123456789abcdef", "t", 0, "success_target", "right", "wrong", 0.5)
FAILED = Pair("0123456789abcdef", "t", 0, "failure_failure", "cut", "wrong", 0.5, 0.7)


@pytest.mark.parametrize(
    ("pair", "broken"),
    [
        (PAIR, []),
        (FAILED, []),
        (replace(PAIR, pair_id="<b>"), ["id is a content hash"]),
        (replace(PAIR, rejected="gone"), ["both episodes exist"]),
        (replace(PAIR, rejected="other"), ["both episodes are of the pair's task"]),
        (replace(PAIR, chosen="cut"), ["the chosen episode succeeds, except in pairs of two failures"]),
        (replace(FAILED, chosen="right"), ["the chosen episode succeeds, except in pairs of two failures"]),
        (replace(PAIR, kind="odd"), ["its kind is known"]),
        (replace(PAIR, rejected="echo"), ["the agent wrote every assistant message"]),
        (replace(PAIR, rejected="more"), ["the rejected one fails"]),
        (replace(PAIR, rejected="cut"), ["their calls differ"]),
        (replace(PAIR, closeness=0.95), ["the rejected one is far enough from the chosen"]),
        (replace(PAIR, closeness=-0.1), ["the rejected one has a rank"]),
        (replace(FAILED, chosen_closeness=1.1), ["the chosen one has a rank"]),
    ],
)
def test_pair_is_quarantined_with_the_expectations_it_fails(pair: Pair, broken: list[str]) -> None:
    pairs, quarantine = check([pair], EPISODES, 0.1)
    assert [one["expectations"] for one in quarantine] == ([broken] if broken else [])
    assert pairs == ([] if broken else [pair])


def test_first_of_several_copies_stays() -> None:
    pairs, [entry] = check([PAIR, PAIR], EPISODES, 0.1)
    assert pairs == [PAIR] and (entry["row"], entry["expectations"]) == (1, ["is no copy"])
