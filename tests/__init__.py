"""Tests, mirrored on src/."""

from pathlib import Path

ROOT = Path(__file__).parent.parent  # of the repository
