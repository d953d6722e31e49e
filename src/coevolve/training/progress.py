"""A progress bar over optimizer steps; plain lines, a few a run, where the output is no terminal."""

import sys
from typing import Any

from tqdm import tqdm
from transformers import TrainerCallback


def bar(total: int, name: str, unit: str, initial: int = 0) -> "tqdm[Any]":
    """tqdm with the project's settings."""
    quiet = not sys.stderr.isatty()
    return tqdm(
        total=total, initial=initial, desc=name, unit=f" {unit}", mininterval=15.0 if quiet else 0.2, ascii=quiet
    )


class ProgressBar(TrainerCallback):  # type: ignore[misc]
    """Shows ``name``, steps, rate and time left."""

    def __init__(self, name: str) -> None:
        self._name = name

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._bar = bar(state.max_steps, self._name, "steps", state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._bar.update()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._bar.close()
