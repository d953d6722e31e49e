"""Events as W&B runs: parameters, metrics and dataset hashes. Off by default; needs the extra ``wandb``."""

import os
import uuid
from typing import Any

from coevolve.core import dvc
from coevolve.core.errors import CoevolveError

Event = dict[str, Any]
State = dict[str, Any]


class Wandb:
    """See ``coevolve.tracking.run.Sink``. ``mode`` is offline or online; online needs a key and a network."""

    name = "wandb"

    def __init__(self, project: str, mode: str) -> None:
        try:
            import wandb
        except ImportError:
            raise CoevolveError("tracking.wandb needs the extra: pip install -e '.[wandb]'") from None
        os.environ.setdefault("WANDB_DIR", str(dvc.root() / "scratch"))
        os.environ.setdefault("WANDB_SILENT", "true")
        self._wandb, self._project, self._mode = wandb, project, mode
        self._run: Any = None

    def apply(self, event: Event, state: State) -> None:
        kind = event["kind"]
        if kind == "start":
            state["id"], state["name"] = uuid.uuid4().hex[:8], event["name"]
        run = self._open(state)
        if kind == "params":
            run.config.update(event["values"], allow_val_change=True)
        elif kind == "metrics":
            run.log({**event["values"], "step": event["step"]})
        elif kind == "dataset":
            run.config.update({f"dataset/{event['path']}": event["digest"]}, allow_val_change=True)
        elif kind == "end":
            run.finish(exit_code=0 if event["status"] == "FINISHED" else 1)
            self._run = None

    def _open(self, state: State) -> Any:
        """The run of ``state``, resumed if another process began it."""
        if self._run is None:
            self._run = self._wandb.init(
                project=self._project, id=state["id"], name=state["name"], mode=self._mode, resume="allow"
            )
        return self._run
