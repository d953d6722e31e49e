"""Untrusted text cannot drive a terminal."""

import os
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.terminal import Printed, apart, plain

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


def test_prints_of_a_block_are_counted_and_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    printed = Printed()
    print("before")
    with apart(printed, "stdout", "stderr"):
        print("\x1b[31mone")
        os.write(1, b"two\n\n")  # as a child process does
        print("three", file=sys.stderr)
    print("between")
    with apart(printed, "stdout"):
        print("four")
        sys.stdout.close()
        print("kept", file=sys.stderr)
    print("after")
    assert tuple(capfd.readouterr()) == ("before\nbetween\nafter\n", "kept\n")
    assert printed.notes() == ["the environment printed 4 lines; the first: \\x1b[31mone"]


def test_an_error_passes_and_streams_are_whole_again(capfd: pytest.CaptureFixture[str]) -> None:
    printed = Printed()
    with pytest.raises(KeyError), apart(printed, "stdout"):
        print("in")
        raise KeyError
    print("out")
    assert capfd.readouterr().out == "out\n" and printed.lines == 1
    assert Printed().notes() == []
