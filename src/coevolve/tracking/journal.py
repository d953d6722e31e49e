"""One facade over MLflow and W&B.

The files are the source of truth, and trackers mirror them. Every event first goes to a journal in the scratch folder, and sinks
follow the journal. A failing sink gets a pause and then continues where it stopped: at the next event, at the end of the run, or at
the start of a later stage. So a tracker that is down never stops training, and gets the missed events when it is back.
"""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from coevolve.core.dvc import experiment_name
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import file_hash, policy_hash
from coevolve.core.io import naming, write_json, write_text
from coevolve.core.programs import git
from coevolve.core.scratch import held, scratch
from coevolve.core.success import is_success
from coevolve.core.untrusted import sound
from coevolve.tracking.config import Tracking
from coevolve.tracking.refusals import remedy, said

POLICY = "coevolve-policy"  # names of registered models, whose versions are policies, failure agents and generators
FAILURE = "coevolve-failure"
GENERATOR = "coevolve-generator"
PAUSE = 30.0  # seconds of pause for a failing sink
LATER = "it gets the missed events later"

Event = dict[str, Any]
State = dict[str, Any]


class Sink(Protocol):
    name: str

    def apply(self, event: Event, state: State) -> None:
        """Send ``event`` to the tracker. ``state`` is this sink's memory of the run, stored with the journal.

        An event that the tracker would never accept is skipped. Otherwise it would block all later events.
        """
        ...


class Run:
    """An open run. Its methods never raise errors of a tracker."""

    def __init__(self, journal: Path, sinks: list[Sink], told: set[str]) -> None:
        self._journal = journal
        self._sinks = sinks
        self._told = told  # failures that the stage has printed
        self._paused: dict[str, float] = {}

    def params(self, values: Mapping[str, Any]) -> None:
        self.write("params", values={key: str(value) for key, value in values.items()})

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        self.write("metrics", values={key: float(value) for key, value in values.items()}, step=step)

    def dataset(self, path: Path, context: str) -> None:
        """Log an input or output file with its DVC hash."""
        self.write("dataset", path=str(path), digest=file_hash(path), context=context)

    def artifact(self, path: Path) -> None:
        self.write("artifact", path=str(path.resolve()))

    def model(self, iteration: int, path: Path, metrics: Mapping[str, float], name: str = POLICY) -> None:
        """Register a version of the model ``name``: a pointer to a DVC path and hash, not a copy of the weights.

        A hash gets only one version.
        """
        figures = {key: float(value) for key, value in metrics.items()}
        self.write("model", iteration=iteration, path=str(path), digest=policy_hash(path), values=figures, name=name)

    def challenge(self, gate: Mapping[str, Any]) -> None:
        """Let a policy challenge for the alias `champion`; ``gate`` is a ``coevolve.tracking.champion.Gate``."""
        self.write("challenge", gate=dict(gate))

    def child(self, key: str) -> None:
        """Make the latest run of ``key`` a child of this one."""
        self.write("child", key=key)

    def trace(self, trajectory: Mapping[str, Any], signals: Sequence[str] = (), panel: str = "") -> None:
        """Log a trajectory as a trace, with the kinds of ``signals`` that it set off or the ``panel`` of its task."""
        self.write("trace", trajectory=dict(trajectory), signals=list(signals), panel=panel)
        self.write("feedback", trajectory=trajectory["trajectory_id"], success=is_success(trajectory["score"]))

    def records(self, path: Path, sources: Mapping[str, str]) -> None:
        """Log the tasks of a file as records of an evaluation dataset. The same content is logged once, whichever run has it.

        ``sources`` leads from tasks to trajectories, of failures that this run has logged as traces.
        """
        place = str(path.resolve())
        self.write("records", path=str(path), place=place, digest=file_hash(path), sources=dict(sources))

    def write(self, kind: str, **fields: Any) -> None:
        try:
            event = {"kind": kind, "time": int(time.time() * 1000), **sound(fields)}
        except ValueError as error:
            print(f"the trackers do not get a {kind}: it is {error}")
            return
        with naming(self._journal), self._journal.open("ab") as file:
            file.write(json.dumps(event).encode() + b"\n")
        self.follow()

    def follow(self) -> bool:
        """Send new events to the sinks. Returns whether all sinks have all events."""
        done = True
        for sink in self._sinks:
            if time.monotonic() < self._paused.get(sink.name, 0.0):
                done = False
                continue
            try:
                _follow(sink, self._journal)
            except CoevolveError:
                raise
            except Exception as error:
                done = False
                self._paused[sink.name] = time.monotonic() + PAUSE
                advice = remedy(error)
                later = f"{advice}; until then scratch/tracking keeps the events" if advice else LATER
                self._tell(f"{sink.name} {said(error)}; {later}")
        return done

    def _tell(self, failure: str) -> None:
        """Print a failure once per stage."""
        if failure not in self._told:
            print(failure)
        self._told.add(failure)

    def finish(self) -> None:
        """Send events once more. Delete the journal if every sink has all events."""
        self._paused = {}
        if self.follow():
            _forget(self._journal)


@contextmanager
def start(config: Tracking, key: str, tags: Mapping[str, str] | None = None) -> Iterator[Run]:
    """A run of ``key`` (such as train/0). First finish the journals that earlier stages left behind."""
    folder = scratch() / "tracking"
    folder.mkdir(parents=True, exist_ok=True)
    sinks, told = _sinks(config), set[str]()
    for left in sorted(folder.glob("*.jsonl")):
        with _ours(left) as ours:
            if ours:
                Run(left, sinks, told).finish()
    journal = folder / f"{time.time_ns()}-{os.getpid()}.jsonl"
    run, name = Run(journal, sinks, told), experiment_name()
    known = {"coevolve.experiment": name, "coevolve.clone": _clone(), **_code(), **(tags or {})}
    with _ours(journal):
        run.write("start", key=key, name=f"{key} {name}", tags=known)
        status = "FAILED"
        try:
            yield run
            status = "FINISHED"
        except KeyboardInterrupt:
            status = "KILLED"
            raise
        finally:
            run.write("end", status=status)
            run.finish()


@contextmanager
def _ours(journal: Path) -> Iterator[bool]:
    """Try to lock ``journal``; yields whether we hold it."""
    lock = journal.with_suffix(".lock")
    with held(lock) as ours:
        yield ours
        if ours and not journal.exists():
            lock.unlink(missing_ok=True)


def _clone() -> str:
    """A name of this project's folder: on a shared server, the runs of other folders are not ours."""
    file = scratch() / ".clone"
    if not file.exists():
        write_text(file, secrets.token_hex(8))
    return file.read_text()


def _code() -> dict[str, str]:
    """Tags that identify the code of a run: the commit that a DVC experiment builds on, or the checked-out commit."""
    commit = os.environ.get("DVC_EXP_BASELINE_REV") or git("rev-parse", "HEAD")
    return {"git.commit": commit} if commit else {}


def _sinks(config: Tracking) -> list[Sink]:
    sinks: list[Sink] = []
    if config.mlflow != "disabled":
        from coevolve.tracking.mlflow_sink import Mlflow

        sinks.append(Mlflow(config.experiment))
    if config.wandb != "disabled":
        from coevolve.tracking.wandb_sink import Wandb

        sinks.append(Wandb(config.experiment, config.wandb))
    return sinks


def _forget(journal: Path) -> None:
    for file in journal.parent.glob(f"{journal.stem}.*"):
        file.unlink(missing_ok=True)


def _follow(sink: Sink, journal: Path) -> None:
    memory = journal.with_suffix(f".{sink.name}.json")
    state: State = json.loads(memory.read_text()) if memory.exists() else {"done": 0}
    events = journal.read_text(encoding="utf-8").splitlines()
    for line in events[state["done"] :]:
        try:
            event = json.loads(line)
        except ValueError:
            print(f"{journal.name}: a line is damaged, as after a kill or on a full disk; {sink.name} does not get it")
        else:
            sink.apply(event, state)
        state["done"] += 1
        write_json(memory, state)
