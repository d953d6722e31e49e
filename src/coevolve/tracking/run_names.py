"""How runs are called in MLflow and W&B: by stage and iteration, then by DVC experiment."""


def run_key(stage: str, part: int | str | None = None) -> str:
    """What identifies a run among those of one experiment: "train/0", "warm", "audit/sql"."""
    return stage if part is None else f"{stage}/{part}"


def run_name(key: str, experiment: str) -> str:
    """What the tracker shows: "train/0 workspace"."""
    return f"{key} {experiment}"
