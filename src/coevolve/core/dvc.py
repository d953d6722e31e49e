"""What DVC says of where this process runs: its root folder, and its experiment."""

import os
from pathlib import Path


def root() -> Path:
    """The repository's folder, also for queued experiments, which run in a copy of it."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def experiment_name() -> str:
    """The name of the DVC experiment that runs; `workspace` outside of experiments."""
    return os.environ.get("DVC_EXP_NAME") or "workspace"
