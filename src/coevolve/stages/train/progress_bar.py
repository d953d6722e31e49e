"""A progress bar over optimizer steps."""

from typing import Any

from transformers import TrainerCallback

from coevolve.core.progress import bar


class ProgressBar(TrainerCallback):  # type: ignore[misc]
    """Shows ``name``, the steps, their rate and the time left."""

    def __init__(self, name: str) -> None:
        self._name = name

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._bar = bar(state.max_steps, self._name, "steps", state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._bar.update()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._bar.close()
