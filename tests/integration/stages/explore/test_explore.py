"""The explorers that need no endpoint, in BFCL."""

import pytest

from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from tests.unit.stages.explore.test_explore import (  # noqa: F401
    test_kept_calls_are_accepted_again,
    test_policy_explores_the_worlds_of_weak_tasks,
    test_same_seed_explores_the_same,
    test_signal_puts_its_tools_into_focus,
)


@pytest.fixture(scope="module")
def environment() -> Environment:
    pytest.importorskip("bfcl_eval")
    return make("bfcl")
