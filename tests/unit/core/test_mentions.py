"""Where a text names a value, in digits, in words, in a list and in scripts without blanks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.mentions import inflected, mentions, words_of


@pytest.mark.parametrize(
    ("value", "text", "named"),
    [
        (35, "refund 35 euros", ["35"]),
        (3, "refund 35 euros", []),
        (1200, "pay 1,200 now", ["1,200"]),
        (2, "send two boxes", ["two"]),
        (True, "is it true", []),
        ("in_progress", "set it to in progress", ["in progress"]),
        ("lamp", "two Lamps and a lampshade", ["Lamp"]),
        (["wifi", "sauna"], "order sauna and wifi", ["sauna and wifi"]),
        (["wifi", "sauna"], "order wifi for the sauna", []),
        ("客厅", "请把客厅的灯关掉", ["客厅"]),
        ("", "nothing", []),
    ],
)
def test_value_is_found_where_the_text_names_it(value: Any, text: str, named: list[str]) -> None:
    assert [text[start:end] for start, end in mentions(value, text)] == named


@given(st.integers(-(10**6), 10**6) | st.from_regex(r"[a-z]{3,12}( [a-z]{3,12})?", fullmatch=True))
def test_value_between_other_words_is_found_at_its_place(value: int | str) -> None:
    text = f"Ask 77777777 for {value}, please"
    assert (len("Ask 77777777 for "), len(f"Ask 77777777 for {value}")) in mentions(value, text)


def test_forms_of_a_word_share_its_beginning() -> None:
    assert inflected("кухня", "лампу на кухне")
    assert not inflected("кухня", "лампу в спальне")
    assert words_of("Café, 客厅") == ("cafe", "客", "厅")
