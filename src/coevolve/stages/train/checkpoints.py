"""What each training step yields, kept so that a killed run loses nothing that was checkpointed."""

from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import TrainerCallback

from coevolve.core.io import read_json, write_json
from coevolve.core.launch import is_main
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory, read_trajectories, write_trajectories
from coevolve.rollout import scored
from coevolve.stages.train.groups import Gathered
from coevolve.stages.train.learner import Log

COMPLETE = "complete"  # the mark of a checkpoint that was written to its end

# what trainers log, and its name in train_metrics.jsonl; those of preferences are means over a step's pairs
LOGGED = {
    **{name: name for name in ("loss", "grad_norm", "kl", "entropy")},
    "rewards/margins": "margin",  # of beta times the log-ratios to the reference
    "rewards/accuracies": "accuracy",  # share of pairs with a margin above 0
    "rewards/chosen": "chosen",  # beta times the log-ratio: below 0, what is right has become less likely
    "rewards/rejected": "rejected",
}


def last_checkpoint(folder: Path) -> Path | None:
    """The latest whole checkpoint in ``folder``."""
    found = [mark.parent for mark in folder.glob(f"checkpoint-*/{COMPLETE}")]
    return max(found, key=_number, default=None)


def _number(checkpoint: Path) -> int:
    """How many steps were done."""
    return int(checkpoint.name.split("-")[1])


class Steps:
    """What each step yields, a file each in the scratch folder; those after the last checkpoint are made again."""

    def __init__(self, folder: Path, done: int) -> None:
        self._folder = folder
        self.done = done
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir() if is_main() else ():  # who writes may have begun before another process is here
            if not file.stem.isdigit() or int(file.stem) >= done:  # the former: half-written when it was killed
                file.unlink()
        self._figures: dict[int, dict[str, float]] = {}

    def keep(self, step: int, gathered: Gathered, wanted: int) -> None:
        episodes = [episode for group in gathered.played for episode in group]
        write_trajectories(self._folder / f"{step}.parquet", (episode.trajectory for episode in episodes))
        # what failed without the agent's doing says nothing about it
        counted = [episode.trajectory for episode in scored(episodes)]
        self._figures[step] = {
            "success": sum(is_success(one.score) for one in counted) / max(len(counted), 1),
            "score": sum(one.score for one in counted) / max(len(counted), 1),
            "groups": float(len(gathered.played)),
            "groups_trained": float(len(gathered.kept)),
            "groups_without_variance": float(gathered.dropped),
            "groups_missing": float(wanted - len(gathered.kept)),
            "turns": sum(len(episode.trajectory.tokens) for episode in episodes) / len(episodes),
            "tokens": float(sum(sum(episode.trajectory.tokens) for episode in episodes)),
        }

    def add(self, step: int, figures: dict[str, float]) -> None:
        self._figures.setdefault(step, {}).update(figures)

    def finish(self, step: int, logs: dict[str, Any]) -> dict[str, float]:
        """Join what training says of ``step`` to its figures, and write both."""
        figures = {
            **self._figures.pop(step, {}),
            **{new: float(logs[old]) for old, new in LOGGED.items() if old in logs},
        }
        write_json(self._folder / f"{step}.json", {"step": step, **figures})
        return figures

    def trajectories(self, count: int) -> list[Trajectory]:
        return [one for step in range(count) for one in read_trajectories(self._folder / f"{step}.parquet")]

    def metrics(self, count: int) -> list[dict[str, float]]:
        return [read_json(self._folder / f"{step}.json") for step in range(count)]


def resumed(scratch: Path) -> tuple[Path | None, Steps]:
    """The checkpoint from which a job goes on, None if it starts, and its steps until then."""
    checkpoint = last_checkpoint(scratch)
    return checkpoint, Steps(scratch / "steps", _number(checkpoint) if checkpoint else 0)


class Keeper(TrainerCallback):  # type: ignore[misc]
    """Marks checkpoints that are whole, and passes metrics on, in the process that writes."""

    def __init__(self, steps: Steps, log: Log | None) -> None:
        self._steps = steps
        self._log = log

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        PartialState().wait_for_everyone()  # each process writes its shard
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "loss" in logs and state.is_world_process_zero:
            step = state.global_step - 1
            figures = self._steps.finish(step, logs)
            if self._log:
                self._log(step, figures)
