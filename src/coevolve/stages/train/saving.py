"""Write the trained policy as a model directory, complete or not at all, with adapters merged and shards gathered."""

import os
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_json, write_json, write_jsonl
from coevolve.core.launch import is_main
from coevolve.core.trajectories import write_trajectories
from coevolve.policies.pretrained import resolve, stored_dtype
from coevolve.policies.transformers_policy import load
from coevolve.stages.train.checkpoints import Steps
from coevolve.stages.train.learner import Job, Shared


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
    """Move the adapter in ``source`` to ``folder``, without the path of the weights that it adapts: it differs by machine."""
    config = read_json(source / "adapter_config.json")
    write_json(folder / "adapter_config.json", {**config, "base_model_name_or_path": None})
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
