"""Each expectation of pairs, broken alone."""

from dataclasses import replace

import pytest

from coevolve.core.records import Pair
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.pairs.choose import check, expectations, report


def episode(name: str, call: str, score: float, task: str = "t") -> Trajectory:
    return Trajectory(name, task, 0, 0, 0, 0, [], [CallOutcome(call, {}, True)], score, StopReason.DONE)


EPISODES = {
    one.trajectory_id: one
    for one in (
        episode("right", "a", 1.0),
        episode("wrong", "b", 0.2),
        episode("cut", "a", 0.2),
        episode("other", "b", 0.2, "u"),
        episode("more", "c", 1.0),
        replace(episode("echo", "d", 0.2), messages=[{"role": "assistant", "content": "ok"}] * 2, tokens=[3]),
    )
}
PAIR = Pair("0123456789abcdef", "t", 0, "success_target", "right", "wrong", 0.5)
FAILED = Pair("0123456789abcdef", "t", 0, "failure_failure", "cut", "wrong", 0.5, 0.7)


@pytest.mark.parametrize(
    ("pair", "broken"),
    [
        (PAIR, []),
        (replace(PAIR, pair_id="<b>"), ["id is a content hash"]),
        (replace(PAIR, rejected="gone"), ["both episodes exist"]),
        (replace(PAIR, rejected="other"), ["both episodes are of the pair's task"]),
        (replace(PAIR, chosen="cut"), ["the chosen episode succeeds, except in pairs of two failures"]),
        (FAILED, []),
        (replace(FAILED, chosen="right"), ["the chosen episode succeeds, except in pairs of two failures"]),
        (replace(PAIR, kind="odd"), ["its kind is known"]),
        (replace(PAIR, rejected="echo"), ["the agent wrote every assistant message"]),
        (replace(PAIR, rejected="more"), ["the rejected one fails"]),
        (replace(PAIR, rejected="cut"), ["their calls differ"]),
        (replace(PAIR, closeness=0.95), ["the rejected one is far enough from the chosen"]),
        (replace(FAILED, chosen_closeness=0.5), ["the rejected one is far enough from the chosen"]),
        (replace(PAIR, closeness=-0.1), ["the rejected one has a rank"]),
        (replace(FAILED, chosen_closeness=1.1), ["the chosen one has a rank"]),
    ],
)
def test_pair_is_quarantined_with_the_expectations_it_fails(pair: Pair, broken: list[str]) -> None:
    checked = check([pair], EPISODES, 0.1)
    assert [one["expectations"] for one in checked.quarantine] == ([broken] if broken else [])
    assert checked.pairs == ([] if broken else [pair])


def test_first_of_several_copies_stays_and_the_report_lists_expectations() -> None:
    checked = check([PAIR, PAIR], EPISODES, 0.1)
    assert checked.pairs == [PAIR]
    assert [(one["row"], one["expectations"]) for one in checked.quarantine] == [(1, ["is no copy"])]
    text = report(checked, "Pairs")
    assert "1 pairs; 1 are in quarantine" in text
    assert all(one.name in text for one in expectations())


def test_empty_list_of_pairs_is_valid() -> None:
    assert check([], {}, 0.1).pairs == []
