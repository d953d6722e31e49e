"""Tests of environments."""

import os
from typing import Any

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.environments.registry import make


def make_or_skip(name: str) -> Any:
    """The environment of a test module. Skips the module if BFCL is not installed and not required."""
    try:
        return make(name)
    except CoevolveError:
        if os.environ.get("COEVOLVE_REQUIRE_BFCL"):
            raise
        pytest.skip("bfcl is not installed; run `coevolve env install bfcl`", allow_module_level=True)
