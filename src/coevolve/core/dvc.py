"""The root folder and the experiment that DVC gives this process."""

import os
from pathlib import Path


def root() -> Path:
    """The repository's folder. A queued experiment runs in a copy, and this is still the original folder."""
    return Path(os.environ.get("DVC_ROOT", ".")).resolve()


def experiment_name() -> str:
    """The name of the current DVC experiment; `workspace` outside of experiments."""
    return os.environ.get("DVC_EXP_NAME") or "workspace"
