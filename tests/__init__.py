"""Tests, mirrored on src/."""

from pathlib import Path

ROOT = Path(__file__).parent.parent  # of the repository
POLICY = ROOT / "src/coevolve_environments/miniworld/policy"  # the tiny policy, a model directory
