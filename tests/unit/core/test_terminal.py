"""Untrusted text cannot drive a terminal."""

import os
import sys
import unicodedata
from contextlib import redirect_stderr, redirect_stdout

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


def test_prints_are_counted_and_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed()
    print("before")
    with redirect_stdout(printed), redirect_stderr(printed):
        print("\x1b[31mone", "more")
        print("two", file=sys.stderr)
        sys.stdout.close()
        print("three")
    print("after")
    assert capsys.readouterr().out == "before\nafter\n"
    assert printed.notes() == ["the environment printed 3 lines; the first: \\x1b[31mone more"]
    assert Printed().notes() == []


def test_prints_of_child_processes_are_counted_too(capfd: pytest.CaptureFixture[str]) -> None:
    printed = Printed()
    with pytest.raises(KeyError), apart(printed, 1):
        os.write(1, b"as a child\ndoes\n")
        os.write(2, b"kept\n")
        raise KeyError
    os.write(1, b"after\n")
    assert tuple(capfd.readouterr()) == ("after\n", "kept\n")
    assert printed.notes() == ["the environment printed 2 lines; the first: as a child"]
