"""How long stages took, for the trackers: notes in the scratch folder, never in a stage's output."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from coevolve.core.dvc import experiment_name
from coevolve.core.errors import CoevolveError
from coevolve.core.io import decode, parse
from coevolve.core.scratch import scratch

FILE = "seconds.jsonl"  # in the scratch folder


@dataclass(frozen=True, slots=True)
class Note:
    """A line of FILE."""

    experiment: str
    stage: str
    seconds: float


def note_seconds(stage: str, seconds: float) -> None:
    """Note that ``stage`` ("train/0") of this experiment took ``seconds``. A stage that has done its work never fails for it."""
    with suppress(OSError):
        scratch().mkdir(parents=True, exist_ok=True)
        with (scratch() / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(Note(experiment_name(), stage, round(seconds, 2)))) + "\n")


def seconds(experiment: str = "") -> dict[str, float]:
    """What the stages of a DVC experiment, this one by default, took when they last ran here, by ``stage/t``.

    Torn lines are ignored.
    """
    experiment = experiment or experiment_name()
    latest: dict[str, float] = {}
    with suppress(OSError):
        for line in (scratch() / FILE).read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError, CoevolveError):
                note = parse(Note, decode(line), FILE)
                if note.experiment == experiment:
                    latest[note.stage] = note.seconds
    return latest
