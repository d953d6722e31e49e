"""Our environments that run calls in processes keep the contract. test_hosted.py has the hosted ones."""

from importlib.util import find_spec

import pytest

from coevolve.environments.registry import make
from tests.contract import violations

NAMES = ["sql", "0.75*miniworld+0.25*sql", *(("bfcl", "bfcl_single") if find_spec("bfcl_eval") else ())]


@pytest.mark.parametrize("name", NAMES)
def test_environment_keeps_the_contract(name: str) -> None:
    assert violations(make(name), 10) == {}
