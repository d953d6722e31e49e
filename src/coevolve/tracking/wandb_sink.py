"""Log runs to W&B. Off by default; needs the extra ``wandb``.

The stages of a DVC experiment are runs of one group, which corresponds to MLflow's parent run. A policy is an artifact of type
`model` that points to its DVC path and hash. Only MLflow's registry decides the champion: W&B gets no challenges.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, install
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import write_text
from coevolve.core.scratch import experiment_name, scratch
from coevolve.core.untrusted import sound
from coevolve.tracking.record import Model, TrackedRun, Tracker

COLUMNS = ("task_id", "trajectory_id", "iteration", "step", "group", "score", "stop_reason")


class Wandb(Tracker):
    """``mode`` is offline or online; online needs a key and a network. W&B gets a training with its files: it can rename no run."""

    name = "wandb"

    def __init__(self, project: str, mode: str) -> None:
        try:
            import wandb
        except ImportError:
            raise CoevolveError(f"tracking.wandb needs the package wandb; run `{install('wandb')}`") from None
        os.environ.setdefault("WANDB_DIR", str(scratch()))
        os.environ.setdefault("WANDB_SILENT", "true")
        self._wandb, self._project, self._mode = wandb, project, mode

    def has(self, key: str, files: str) -> bool:
        return _note(key, files).exists()

    def log(self, key: str, files: str, run: TrackedRun) -> None:
        stage, experiment = key.partition("/")[0], experiment_name()
        with self._wandb.init(
            project=self._project,
            id=_note(key, files).stem,
            name=f"{key} {experiment}",
            group=experiment,
            job_type=stage,
            mode=self._mode,
            resume="allow",
            config={**sound(dict(run.params)), **run.tags},
        ) as there:
            datasets = {f"dataset/{path}": file_hash(path) for path, _ in run.datasets}
            there.config.update(datasets, allow_val_change=True)
            for step, figures in run.metrics:
                there.log({**figures, "step": step})
            for path in run.artifacts:
                artifact = self._wandb.Artifact(f"{stage}-{path.name}", type="file")
                artifact.add_file(str(path))
                there.log_artifact(artifact)
            if run.model:
                self._model(run.model, there)
            if run.traces:
                episodes = [sound(asdict(trajectory)) for trajectory, _ in run.traces]
                rows = [[*(one[column] for column in COLUMNS), json.dumps(one["messages"])] for one in episodes]
                there.log({"trajectories": self._wandb.Table(columns=[*COLUMNS, "messages"], data=rows)})
        write_text(_note(key, files), key)

    def _model(self, model: Model, run: Any) -> None:
        place = {"iteration": model.iteration, "dvc.path": str(model.path), "dvc.hash": policy_hash(model.path)}
        artifact = self._wandb.Artifact(model.name, type="model", metadata={**place, **model.figures})
        run.log_artifact(artifact, aliases=[f"{model.name.removeprefix('coevolve-')}-{model.iteration}"])


def _note(key: str, files: str) -> Path:
    """The file that notes a logged run. Its name is the run's id: W&B continues a run that an earlier attempt began."""
    return scratch() / "wandb" / f"{content_hash([key, files])[:16]}.logged"
