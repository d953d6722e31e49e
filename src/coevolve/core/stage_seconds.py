"""How long stages took, for the trackers: notes in the scratch folder, never in a stage's output."""

import json
from contextlib import suppress

from coevolve.core.dvc import experiment_name
from coevolve.core.scratch import scratch

FILE = "seconds.jsonl"  # in the scratch folder


def note_seconds(stage: str, seconds: float) -> None:
    """Note that ``stage`` ("train/0") of this experiment took ``seconds``. A failed write does not fail the finished stage."""
    note = {"experiment": experiment_name(), "stage": stage, "seconds": round(seconds, 2)}
    with suppress(OSError):
        scratch().mkdir(parents=True, exist_ok=True)
        with (scratch() / FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")


def seconds(experiment: str = "") -> dict[str, float]:
    """Seconds of each stage's last run on this machine, by ``stage/t``, for a DVC experiment (by default the current one).

    Incomplete lines are ignored.
    """
    experiment = experiment or experiment_name()
    latest: dict[str, float] = {}
    with suppress(OSError):
        for line in (scratch() / FILE).read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                note = json.loads(line)
                if note["experiment"] == experiment:
                    latest[note["stage"]] = note["seconds"]
    return latest
