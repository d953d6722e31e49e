"""Instructions against a lexicon: words without a place in the task, and effects without words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.words.lexicon import SILENT, Meaning, hear, number, unfitting, value

LEXICON = {
    "please": [],
    "cheapest": [frozenset({"low"})],
    "most": [frozenset({"high"})],
    "how many": [frozenset({"count", "sum"})],
    "now": [frozenset({"open", SILENT})],
    "not": [frozenset({"not"})],
    "do": [],
    "box": [frozenset({"boxes"})],
    "Nice": [frozenset({value("Nice")})],
    "which box": [frozenset({"boxes"}), frozenset({"asked boxes"})],
}
COUNTED = Meaning(LEXICON, frozenset({"count", "boxes", number(3)}), [frozenset({"count"})])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("how many boxes", ""),
        ("how many of the boxes", None),  # "of" is nobody's word here
        ("three boxes: how many", ""),
        ("boxes, please", "does not say 'count'"),
        ("how many cheapest boxes", "says 'cheapest', for which its reference has no place"),
        ("how many boxes don't", "says 'not', for which its reference has no place"),
        ("banana violin many", "is no sentence: most of its words are unknown"),
        ("how many, which boxes", "says 'which boxes', for which its reference has no place"),
    ],
)
def test_lexicon_finds_words_that_do_not_fit_the_task(text: str, found: str | None) -> None:
    assert unfitting(text, COUNTED) == found


def test_guessing_judges_the_understood_words() -> None:
    assert unfitting("some cheapest boxes", COUNTED) is None
    assert "cheapest" in (unfitting("some cheapest boxes", COUNTED, guess=True) or "")
    assert unfitting("some boxes", COUNTED, guess=True) is None  # what is not said may be in what is not understood


def test_capital_letter_distinguishes_a_town_from_a_word() -> None:
    assert list(hear("Nice", LEXICON).phrases) == [("Nice", frozenset({"value nice"}))]
    assert list(hear("nice", LEXICON).unknown) == ["nice"]


def test_numbers_are_heard_as_their_values() -> None:
    for text in ("1,200", "1200", "1200.0"):
        assert [senses for _, senses in hear(text, {}).phrases] == [frozenset({"number 1200"})]
    assert [senses for _, senses in hear("2026-12-31 twelve", {}).phrases] == [
        frozenset({"value 2026-12-31"}),
        frozenset({"number 12"}),
    ]


@given(st.text(max_size=60))
def test_every_word_is_heard_or_unknown(text: str) -> None:
    heard = hear(text, LEXICON)
    assert heard.unknown or all(senses for _, senses in heard.phrases)
    assert unfitting(text, Meaning(LEXICON, frozenset(), [])) is not None or heard.unknown


def test_words_beside_unknown_ones_must_name_the_values() -> None:
    rome = Meaning(
        {**LEXICON, "Rome": [frozenset({value("Rome")})]},
        frozenset({"boxes", value("Rome")}),
        [frozenset({value("Rome")})],
    )
    assert unfitting("cheapest boxes in Rome", rome) is None and unfitting("some cheapest boxes of rome", rome) is None
    assert unfitting("some cheapest boxes of it", rome) == "does not say 'value rome'"
