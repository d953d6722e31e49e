"""Send events to W&B as runs. Off by default; needs the extra ``wandb``.

The stages of a DVC experiment are runs of one group, which corresponds to MLflow's parent run. A policy is an artifact of type
`model` that points to its DVC path and hash. Only MLflow's registry decides the champion: W&B gets no challenges.
"""

import json
import os
import uuid
from pathlib import Path
from typing import Any

from coevolve.core import dvc
from coevolve.core.errors import CoevolveError, install

Event = dict[str, Any]
State = dict[str, Any]

COLUMNS = ("task_id", "trajectory_id", "iteration", "step", "group", "score", "stop_reason")


class Wandb:
    """See ``coevolve.tracking.journal.Sink``. ``mode`` is offline or online; online needs a key and a network."""

    name = "wandb"

    def __init__(self, project: str, mode: str) -> None:
        try:
            import wandb
        except ImportError:
            raise CoevolveError(f"tracking.wandb needs the package wandb; run `{install('wandb')}`") from None
        os.environ.setdefault("WANDB_DIR", str(dvc.root() / "scratch"))
        os.environ.setdefault("WANDB_SILENT", "true")
        self._wandb, self._project, self._mode = wandb, project, mode
        self._run: Any = None

    def apply(self, event: Event, state: State) -> None:
        kind = event["kind"]
        if kind == "start":
            state["id"], state["name"], state["traces"] = uuid.uuid4().hex[:8], event["name"], []
            state["group"], state["stage"] = event["tags"]["coevolve.experiment"], event["key"].split("/")[0]
        run = self._open(state)
        if kind == "start":
            run.config.update(event["tags"])
        elif kind == "params":
            run.config.update(event["values"], allow_val_change=True)
        elif kind == "metrics":
            run.log({**event["values"], "step": event["step"]})
        elif kind == "dataset":
            run.config.update({f"dataset/{event['path']}": event["digest"]}, allow_val_change=True)
        elif kind == "artifact":
            self._artifact(Path(event["path"]), run, state)
        elif kind == "model":
            self._model(event, run)
        elif kind == "trace":  # a table can only be logged whole, at the end
            one = event["trajectory"]
            state["traces"].append([*(one[column] for column in COLUMNS), json.dumps(one["messages"])])
        elif kind == "end":
            if state["traces"]:
                run.log({"trajectories": self._wandb.Table(columns=[*COLUMNS, "messages"], data=state["traces"])})
            run.finish(exit_code=0 if event["status"] == "FINISHED" else 1)
            self._run = None

    def _artifact(self, file: Path, run: Any, state: State) -> None:
        if file.exists():
            artifact = self._wandb.Artifact(f"{state['stage']}-{file.name}", type="file")
            artifact.add_file(str(file))
            run.log_artifact(artifact)

    def _model(self, event: Event, run: Any) -> None:
        place = {"iteration": event["iteration"], "dvc.path": event["path"], "dvc.hash": event["digest"]}
        name = event["name"]
        artifact = self._wandb.Artifact(name, type="model", metadata={**place, **event["values"]})
        run.log_artifact(artifact, aliases=[f"{name.removeprefix('coevolve-')}-{event['iteration']}"])

    def _open(self, state: State) -> Any:
        """The run of ``state``, resumed if another process began it."""
        if (
            self._run is not None and self._run.id != state["id"]
        ):  # the run of a killed process, which was never finished
            self._run.finish(exit_code=1)
            self._run = None
        if self._run is None:
            self._run = self._wandb.init(
                project=self._project,
                id=state["id"],
                name=state["name"],
                group=state["group"],
                job_type=state["stage"],
                mode=self._mode,
                resume="allow",
            )
        return self._run
