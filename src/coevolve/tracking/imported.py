"""Rollouts of other trainers and harnesses as traces of MLflow, with reward, task and signals as tags."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.rollouts.find_weaknesses import signals
from coevolve.tracking.mlflow_sink import Mlflow
from coevolve.tracking.mlflow_store import store
from coevolve.tracking.record import TrackedRun, signal_tags
from coevolve.tracking.refusals import RESTART, remedy, said


def log(source: Path, file: Path, experiment: str) -> str:
    """Log the trajectories of the Parquet ``file``, imported from ``source``, to ``experiment``. Returns the store's address.

    A source has one run. A trace that the run has is not logged again, so a folder that has grown adds its new rollouts.
    """
    kinds: dict[str, list[str]] = defaultdict(list)
    for signal in signals(file):
        for name in signal.trajectory_ids:
            kinds[name].append(signal.kind)
    traces = [(_named(one), signal_tags(kinds[one.trajectory_id])) for one in read_trajectories(file)]
    place = str(source.resolve())
    run = TrackedRun([], {"source": place}, traces=traces)
    try:
        Mlflow(experiment).log(f"import/{source.name}", content_hash(place), run)
        return store()
    except Exception as error:
        raise CoevolveError(f"MLflow {said(error)}; {remedy(error) or RESTART}") from None


def _named(one: Trajectory) -> Trajectory:
    """``one`` with a hash of its content in its id: an address may hold another rollout later."""
    return replace(
        one, trajectory_id=f"{one.trajectory_id} {content_hash([one.task_id, one.step, one.score, one.messages], 8)}"
    )
