"""Answers that depend on the order of a set, or on the time of day, differ in another process."""

import coevolve.audit.checks  # noqa: F401  (fills the table of checks)
from coevolve.audit.subject import Subject, finding
from coevolve.environments.registry import make

CHECK = "semantic.verifier_portability"


def test_answers_that_differ_in_another_process_are_found() -> None:
    timed = "tests.unit.environments.unruly:Timed"
    for place, number in (("miniworld", 0), ("tests.unit.audit.broken:Scattered", 8), (timed, 2)):
        found = finding(Subject(make(place), 4, place), CHECK)
        assert found.number == number, found.evidence
        assert all("differs in another process" in line for line in found.evidence)
