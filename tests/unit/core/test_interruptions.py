"""Interruptions are counted by their cause, and the most frequent cause is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.interruptions import REMEDIES, contained, counted, hopeless, interrupted, named, serious
from coevolve.core.trajectories import INTERRUPTED, End, StopReason

ENDS = st.lists(st.tuples(st.sampled_from(StopReason), st.sampled_from(("no", "never", "not today"))))


@given(ENDS)
def test_every_interruption_is_in_one_note_with_its_most_frequent_cause(ends: list[End]) -> None:
    notes = interrupted(ends)
    by_reason = {reason: [cause for stop, cause in ends if stop == reason] for reason in INTERRUPTED}
    assert len(notes) == sum(bool(causes) for causes in by_reason.values())
    for note, (reason, causes) in zip(notes, filter(lambda one: one[1], by_reason.items()), strict=True):
        assert note.startswith(f"{len(causes)} of {len(ends)} episodes {INTERRUPTED[reason]}")
        shown = note.rpartition(": ")[2]
        assert causes.count(shown) == max(map(causes.count, causes))
    assert interrupted(list(reversed(ends))) == notes


@given(ENDS)
def test_more_than_a_twentieth_is_serious(ends: list[End]) -> None:
    assert serious(ends) == (20 * sum(reason in INTERRUPTED for reason, _ in ends) > len(ends))


def test_causes_that_differ_are_counted_apart() -> None:
    assert counted(["a", "b", "b"], 9, "explorations") == ["3 of 9 explorations broke, 2 of them by: b"]
    assert counted([], 9, "explorations") == []


@pytest.mark.parametrize("cause", REMEDIES)
def test_known_causes_have_a_remedy(cause: str) -> None:
    (note,) = counted([f"ValueError: {cause} 5 s"], 2, "episodes")
    assert note.endswith(f"; {REMEDIES[cause]}")


def test_nearly_all_is_an_error() -> None:
    hopeless(["x"] * 18, 20, "candidates")
    with pytest.raises(CoevolveError, match="19 of 20 candidates broke: x; `coevolve env check`"):
        hopeless(["x"] * 19, 20, "candidates")
    hopeless([], 0, "candidates")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("a"), "KeyError: 'a'"),
        (MemoryError(), "MemoryError"),
        (CoevolveError("no"), "no"),
        (SystemExit(2), "SystemExit: 2"),
        (Mute(), "Mute"),
    ],
)
def test_an_exception_ends_only_its_block(error: BaseException, text: str) -> None:
    causes: list[str] = []
    with contained(causes):
        raise error
    assert causes == [text] == [named(error)]


def test_a_persons_interrupt_ends_everything() -> None:
    with pytest.raises(KeyboardInterrupt), contained([]):
        raise KeyboardInterrupt
