"""What is known of DVC: its root, and the experiment that runs."""

import os
from pathlib import Path


def root() -> Path:
    """Of the repository, also for queued experiments, which run in a copy."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def experiment_name() -> str:
    """Of the DVC experiment that runs, or of the workspace."""
    return os.environ.get("DVC_EXP_NAME") or "workspace"
