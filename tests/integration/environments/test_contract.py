"""Our environments that run calls in processes keep the contract. test_hosted.py has the hosted ones."""

from importlib.util import find_spec

import pytest

from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from tests.contract import PROMISES, violations

NAMES = ["sql", *(("bfcl", "bfcl_single") if find_spec("bfcl_eval") else ())]


@pytest.fixture(scope="module", params=NAMES)
def environment(request: pytest.FixtureRequest) -> Environment:
    return make(request.param)


@pytest.mark.parametrize("check", PROMISES)
def test_environment_keeps_the_contract(environment: Environment, check: str) -> None:
    assert violations(environment, 10, check) == {}
