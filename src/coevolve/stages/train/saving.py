"""Save what a training makes: the results of each step, checkpoints, and the trained policy.

A killed run loses nothing up to its last checkpoint. The policy is a model directory, complete or not at all, with adapters merged
and shards gathered.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import TrainerCallback
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_json, write_json, write_jsonl
from coevolve.core.launch import is_main
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory, read_trajectories, write_trajectories
from coevolve.policies.pretrained import resolve, stored_dtype
from coevolve.policies.transformers_policy import load
from coevolve.rollout import scored
from coevolve.stages.train.groups import Gathered
from coevolve.stages.train.learner import Job, Log, Shared

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


def finish(trainer: Any, tokenizer: Any, settings: Shared, job: Job, steps: Steps) -> None:
    """Write the outputs of a finished training and delete its checkpoints; every process calls it."""
    save(trainer, tokenizer, settings, job)
    if is_main():
        write_trajectories(job.trajectories, steps.trajectories(settings.train.steps))
        write_jsonl(job.metrics, steps.metrics(settings.train.steps))
        shutil.rmtree(job.scratch)


def save(trainer: Any, tokenizer: Any, settings: Shared, job: Job) -> None:
    """Write the model of ``trainer`` to ``job.policy``; every process calls it, and the main process writes.

    Adapters are merged into the unquantized weights of the parent, even if training quantized them. They also stay in the folder
    ``adapter``, because they are small enough to send: on the parent's weights they give the policy before any average. Weights
    become bfloat16 only if the parent's are: it would lose most of a small step. So an average with ``job.base`` is in float32.
    """
    policy, share = job.policy, settings.train.keep_base
    model = trainer.accelerator.unwrap_model(trainer.model)
    temporary = policy.with_name(f".{policy.name}.tmp")
    if is_main():
        policy.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
    adapted = hasattr(model, "merge_and_unload")
    if adapted or settings.launch.sharding == "zero3":
        folder = job.scratch / "adapter" if adapted else temporary
        trainer.save_model(str(folder))  # gathers shards, so every process must call it
        trainer.accelerator.wait_for_everyone()
        if is_main():
            (folder / "training_args.bin").unlink(missing_ok=True)
    if not is_main():
        return
    unset_hf_deepspeed_config()  # otherwise the models loaded below would be sharded
    if adapted:
        from peft import PeftModel

        wide = share or stored_dtype(resolve(job.parent)) == "float32"
        whole, _ = load(job.parent, dtype="float32" if wide else settings.policy.dtype, place="cpu")
        PeftModel.from_pretrained(whole, folder).merge_and_unload().save_pretrained(temporary)
        _move_adapter(folder, temporary / "adapter")
    elif not temporary.exists():
        model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    if share:
        kept(load(temporary, place="cpu")[0], job.base, share).save_pretrained(temporary)
    shutil.rmtree(policy, ignore_errors=True)
    os.replace(temporary, policy)


def save_learned(trainer: Any, tokenizer: Any, settings: Shared, job: Job) -> None:
    """Write ``job.policy`` for ``coevolve.policies.helper_model``: the whole model, or the adapter alone."""
    if settings.train.lora.enabled:
        save_adapter(trainer, job.policy)
    else:
        save(trainer, tokenizer, settings, job)


def save_adapter(trainer: Any, folder: Path) -> None:
    """Write the adapter of ``trainer`` to ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    trainer.save_model(str(temporary))
    _move_adapter(temporary, folder)
    shutil.rmtree(temporary)


def _move_adapter(source: Path, folder: Path) -> None:
    """Move the adapter in ``source`` to ``folder``, without what differs by machine and by process: the path of the weights
    that it adapts, and the order in which peft, which keeps a set, writes the names of the adapted layers.
    """
    config = read_json(source / "adapter_config.json")
    layers = config["target_modules"]
    ordered = sorted(layers) if isinstance(layers, list) else layers
    written = {**config, "base_model_name_or_path": None, "target_modules": ordered}
    write_json(folder / "adapter_config.json", written)
    os.replace(source / "adapter_model.safetensors", folder / "adapter_model.safetensors")


def kept(model: Any, base: Path, share: float) -> Any:
    """``model`` with weights (1 - share) θ + share θ_0, where θ_0 are the weights of the model directory ``base``.

    An average in weights of models with a common ancestor keeps most abilities of both (WARP, arXiv 2406.16768; arXiv
    2309.06256 mitigates the alignment tax this way).
    """
    first = dict(load(base, place="cpu")[0].named_parameters())
    weights = dict(model.named_parameters())
    shapes, first_shapes = ({name: values.shape for name, values in part.items()} for part in (weights, first))
    if shapes != first_shapes:
        raise CoevolveError(f"train.keep_base: {base} has other weights than the policy in training; set it to 0.0")
    with torch.no_grad():
        for name, values in weights.items():
            values.copy_(values.float() * (1.0 - share) + first[name] * share)
    return model
