"""`import coevolve` loads nothing heavy."""

import subprocess
import sys

import pytest

import coevolve


def test_import_is_cheap_and_every_name_exists() -> None:
    heavy = "('torch', 'pydantic', 'duckdb', 'numpy')"
    code = f"import sys, coevolve\nprint([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert all(getattr(coevolve, name).__doc__ for name in coevolve.__all__) and set(coevolve.__all__) <= {
        *dir(coevolve)
    }
    with pytest.raises(AttributeError, match="'coevolve' has no attribute 'signal'"):
        coevolve.signal  # type: ignore[attr-defined]  # noqa: B018
