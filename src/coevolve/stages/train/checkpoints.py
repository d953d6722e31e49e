"""Keep the results of each training step, so that a killed run loses nothing up to its last checkpoint."""

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

COMPLETE = "complete"  # marks a checkpoint that was written completely

# metrics of TRL's trainers, and their names in train_metrics.jsonl; the rewards are means over the pairs of a step
LOGGED = {
    **{name: name for name in ("loss", "grad_norm", "kl", "entropy")},
    "sampling/sampling_logp_difference/mean": "engine_gap_mean",  # of the engine that samples and the model, in nats per token
    "sampling/sampling_logp_difference/max": "engine_gap_max",
    "rewards/margins": "margin",  # difference of beta times the log-ratios to the anchor
    "rewards/accuracies": "accuracy",  # share of pairs with a margin above 0
    "rewards/chosen": "chosen",  # beta times the log-ratio: below 0, the chosen episode has become less likely
    "rewards/rejected": "rejected",
}


def _number(checkpoint: Path) -> int:
    """The number of steps before ``checkpoint``."""
    return int(checkpoint.name.split("-")[1])


class Steps:
    """Files of each step's results in the scratch folder; a resumed run repeats the steps after the last checkpoint."""

    def __init__(self, folder: Path, done: int) -> None:
        self._folder = folder
        self.done = done
        folder.mkdir(parents=True, exist_ok=True)
        # only the main process cleans up: it may write before the others get here
        for file in folder.iterdir() if is_main() else ():
            if not file.stem.isdigit() or int(file.stem) >= done:  # no digits: half-written at a kill
                file.unlink()
        self._figures: dict[int, dict[str, float]] = {}

    def keep(self, step: int, gathered: Gathered, wanted: int) -> None:
        episodes = [episode for group in gathered.played for episode in group]
        write_trajectories(self._folder / f"{step}.parquet", (episode.trajectory for episode in episodes))
        # an episode that the environment failed says nothing about the agent
        counted = [episode.trajectory for episode in scored(episodes)]
        self._figures[step] = {
            "success": sum(is_success(trajectory.score) for trajectory in counted) / max(len(counted), 1),
            "score": sum(trajectory.score for trajectory in counted) / max(len(counted), 1),
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
        """Add the trainer's ``logs`` of ``step`` to its figures, and write them."""
        figures = {
            **self._figures.pop(step, {}),
            **{new: float(logs[old]) for old, new in LOGGED.items() if old in logs},
        }
        write_json(self._folder / f"{step}.json", {"step": step, **figures})
        return figures

    def trajectories(self, count: int) -> list[Trajectory]:
        files = [self._folder / f"{step}.parquet" for step in range(count)]
        return [trajectory for file in files for trajectory in read_trajectories(file)]

    def metrics(self, count: int) -> list[dict[str, float]]:
        return [read_json(self._folder / f"{step}.json") for step in range(count)]


def resumed(scratch: Path) -> tuple[Path | None, Steps]:
    """The latest complete checkpoint, or None, and the steps before it."""
    complete = [mark.parent for mark in scratch.glob(f"checkpoint-*/{COMPLETE}")]
    checkpoint = max(complete, key=_number, default=None)
    return checkpoint, Steps(scratch / "steps", _number(checkpoint) if checkpoint else 0)


class Keeper(TrainerCallback):  # type: ignore[misc]
    """In the main process, marks complete checkpoints and hands metrics on to ``log``."""

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
