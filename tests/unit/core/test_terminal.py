"""Untrusted text cannot drive a terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.terminal import plain

ANYTHING = st.text(st.characters(codec=None, categories=None) | st.sampled_from("\x1b\x07\r\x9b\u202e\ud800\n"))


@given(ANYTHING)
def test_plain_text_holds_no_control_characters(text: str) -> None:
    for shown in (plain(text), str(CoevolveError(f"{text}: not a task"))):
        shown.encode()  # a lone surrogate could not be printed
        assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Cf") and one not in "\n\t"]


@given(st.text(st.characters(exclude_categories=["C"])))
def test_harmless_text_stays_unchanged(text: str) -> None:
    assert plain(text + "\n\tä€😀") == text + "\n\tä€😀"


def test_clipboard_sequence_is_escaped() -> None:
    assert plain("a\x1b]52;c;cHduZWQ=\x07b") == "a\\x1b]52;c;cHduZWQ=\\x07b"
