"""The line of a failed program that says what is wrong."""

import pytest

from coevolve.core.programs import reason

FOOTER = "\nHaving any troubles? Hit us up at https://dvc.org/support, we are always happy to help!\n"


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "ERROR: unexpected error - 'getpwuid(): uid not found: 12345'\n" + FOOTER,
            "'getpwuid(): uid not found: 12345'; this user has no name here: set USER, for example `export USER=me`",
        ),
        (
            "ERROR: bad DVC file name 'dvc.yaml' is git-ignored.\n",
            "bad DVC file name 'dvc.yaml' is git-ignored.; correct the .gitignore that names it",
        ),
        ("hint: a branch\nfatal: not a git repository (or any parent)\n", "not a git repository (or any parent)"),
        ("warning: slow\nerror: x.py: there is no x\n", "x.py: there is no x"),
        ("Traceback (most recent call last):\n  File 'x'\nKeyError: 'no bulb'\n", "KeyError: 'no bulb'"),
        ("ERROR: first\nERROR: second\n" + FOOTER, "first"),
        ("'dvc.yaml' is invalid.\n\nExpected a node, in line 1\n  1 stages: [\n", "'dvc.yaml' is invalid."),
        ("exit code 3", "exit code 3"),
    ],
)
def test_line_of_a_failure(said: str, line: str) -> None:
    assert reason(said) == line
