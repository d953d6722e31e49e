"""What no file of a run holds, for the trackers: how long stages took, and curves that no output has.

The notes are in the scratch folder, never in a stage's output.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from coevolve.core.scratch import experiment_name, scratch

FILE = "seconds.jsonl"  # in the scratch folder

listeners: list[Callable[[int, Mapping[str, float]], None]] = []  # they hear each step of the training that runs here


def note_seconds(stage: str, seconds: float) -> None:
    """Note that ``stage`` ("train/0") of this experiment took ``seconds``. A failed write does not fail the finished stage."""
    _note({"stage": stage, "seconds": round(seconds, 2)})


def note_step(stage: str, step: int, figures: Mapping[str, float]) -> None:
    """Note the ``figures`` of a step of training that no output holds, and tell the listeners."""
    _note({"stage": stage, "step": step, "figures": dict(figures)})
    tell_step(step, figures)


def tell_step(step: int, figures: Mapping[str, float]) -> None:
    for listener in listeners:
        listener(step, figures)


def seconds(experiment: str = "") -> dict[str, float]:
    """Seconds of each stage's last run on this machine, by ``stage/t``, for a DVC experiment (by default the current one)."""
    return {note["stage"]: note["seconds"] for note in _notes(experiment) if "seconds" in note}


def curve(stage: str) -> list[tuple[int, Mapping[str, float]]]:
    """The noted steps of the last run of ``stage`` of this experiment on this machine, also if it continued a killed run."""
    steps: list[tuple[int, Mapping[str, float]]] = []
    for note in _notes():
        if note["stage"] == stage and "step" in note:
            steps = [step for step in steps if step[0] < note["step"]] + [(note["step"], note["figures"])]
    return steps


def _note(note: dict[str, Any]) -> None:
    with suppress(OSError):
        scratch().mkdir(parents=True, exist_ok=True)
        with (scratch() / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"experiment": experiment_name(), **note}) + "\n")


def _notes(experiment: str = "") -> Iterator[dict[str, Any]]:
    """The notes of ``experiment``, by default the current one. Incomplete lines are ignored."""
    with suppress(OSError):
        for line in (scratch() / FILE).read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                note = json.loads(line)
                if note["experiment"] == (experiment or experiment_name()):
                    yield note
