"""Section `tracking`: MLflow and W&B."""

from typing import Literal

from coevolve.core.section import Section


class Tracking(Section):
    experiment: str = "coevolve"
    """Name of the MLflow experiment."""
    mlflow: Literal["enabled", "disabled"] = "enabled"
    """Whether MLflow gets the runs: disabled where it is not installed, or where W&B is all that you look at."""
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    """Mode of Weights & Biases, which needs the extra `wandb`; it gets everything except the alias `champion`."""
