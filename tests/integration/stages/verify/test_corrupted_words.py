"""Corrupted instructions of the environment sql are refused."""

import pytest

from coevolve.core.records import Candidate
from tests.unit.stages.verify.test_corrupted_words import (  # noqa: F401
    sound_in,
    test_corrupted_instructions_are_refused_and_sound_ones_are_not,
    test_no_claim_lets_the_instruction_of_another_task_pass,
    test_unmentioned_change_fails_whatever_is_claimed,
)


@pytest.fixture(scope="module")
def sound() -> list[Candidate]:
    return sound_in("sql")
