"""The root folder and the experiment that DVC gives this process."""

import os
from pathlib import Path


def root() -> Path:
    """The repository's folder, also in queued experiments, which run in a copy of it."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def experiment_name() -> str:
    """The name of the current DVC experiment; `workspace` outside of experiments."""
    return os.environ.get("DVC_EXP_NAME") or "workspace"
