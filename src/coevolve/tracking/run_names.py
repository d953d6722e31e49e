"""Names of runs in MLflow and W&B: stage and iteration, then the DVC experiment."""


def run_key(stage: str, part: int | str | None = None) -> str:
    """The key of a run within an experiment: "train/0", "warm", "audit/sql"."""
    return stage if part is None else f"{stage}/{part}"


def run_name(key: str, experiment: str) -> str:
    """The name in the tracker: "train/0 workspace"."""
    return f"{key} {experiment}"
