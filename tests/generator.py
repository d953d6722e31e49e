"""A generator that has hardly learned to write specs, as a starting point for tests."""

from pathlib import Path

import pytest

from coevolve.stages.generate.spec import Tools
from coevolve.stages.generator import tiny_generator as initial


def hardly_trained(tools: Tools, folder: Path, steps: int = 60) -> Path:
    """The generator's model directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(initial, "COPY_STEPS", 0)
        patch.setattr(initial, "STEPS", steps)
        initial.make(tools, folder / "model")
    return folder / "model"
