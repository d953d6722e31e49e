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
    """Note that ``stage`` ("train/0") of this experiment took ``seconds``. A failed write does not fail the finished stage."""
    with suppress(OSError):
        scratch().mkdir(parents=True, exist_ok=True)
        with (scratch() / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(Note(experiment_name(), stage, round(seconds, 2)))) + "\n")


def seconds(experiment: str = "") -> dict[str, float]:
    """Seconds of each stage's last run on this machine, by ``stage/t``, for a DVC experiment (by default the current one).

    Incomplete lines are ignored.
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
