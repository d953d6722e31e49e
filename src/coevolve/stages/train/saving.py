"""The trained policy as a model directory: whole or absent, adapters merged, shards brought together."""

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
from coevolve.policies.transformers_policy import load
from coevolve.stages.train.checkpoints import Steps
from coevolve.stages.train.learner import Job, Shared


def finish(trainer: Any, tokenizer: Any, settings: Shared, job: Job, steps: Steps) -> None:
    """Write all that a training that came to its end leaves behind, and forget its checkpoints; every process calls it."""
    save(trainer, tokenizer, settings, job)
    if is_main():
        write_trajectories(job.trajectories, steps.trajectories(settings.train.steps))
        write_jsonl(job.metrics, steps.metrics(settings.train.steps))
        shutil.rmtree(job.scratch)


def save(trainer: Any, tokenizer: Any, settings: Shared, job: Job) -> None:
    """Write what ``trainer`` has made of ``job.parent`` to ``job.policy``; every process calls it, one writes.

    Adapters are merged into the weights of the parent as they are, also where training saw them quantized.
    """
    policy, dtype = job.policy, settings.policy.dtype
    model = trainer.accelerator.unwrap_model(trainer.model)
    temporary = policy.with_name(f".{policy.name}.tmp")
    if is_main():
        policy.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
    adapted = hasattr(model, "merge_and_unload")
    if adapted or settings.launch.sharding == "zero3":
        place = job.scratch / "adapter" if adapted else temporary
        trainer.save_model(str(place))  # brings shards together: a matter of all processes
        trainer.accelerator.wait_for_everyone()
        if is_main():
            (place / "training_args.bin").unlink(missing_ok=True)
    if not is_main():
        return
    unset_hf_deepspeed_config()  # or what is loaded here would be in shards
    if adapted:
        from peft import PeftModel

        whole, _ = load(job.parent, dtype=dtype, place="cpu")
        PeftModel.from_pretrained(whole, job.scratch / "adapter").merge_and_unload().save_pretrained(temporary)
    elif not temporary.exists():
        model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    if share := settings.train.keep_base:
        kept(load(temporary, dtype=dtype, place="cpu")[0], job.base, share).save_pretrained(temporary)
    shutil.rmtree(policy, ignore_errors=True)
    os.replace(temporary, policy)


def save_learned(trainer: Any, tokenizer: Any, settings: Shared, job: Job) -> None:
    """Write ``job.policy`` for who is kept as ``coevolve.policies.adapted`` does: the whole model, or the adapter alone."""
    if settings.train.lora.enabled:
        save_adapter(trainer, job.policy)
    else:
        save(trainer, tokenizer, settings, job)


def save_adapter(trainer: Any, folder: Path) -> None:
    """Write the adapter that ``trainer`` has made to ``folder``, without the place of the weights that it is on."""
    shutil.rmtree(folder, ignore_errors=True)
    place = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(place, ignore_errors=True)
    trainer.save_model(str(place))
    config = read_json(place / "adapter_config.json")
    write_json(folder / "adapter_config.json", {**config, "base_model_name_or_path": None})
    os.replace(place / "adapter_model.safetensors", folder / "adapter_model.safetensors")
    shutil.rmtree(place)


def kept(model: Any, base: Path, share: float) -> Any:
    """``model`` with weights (1 - share) θ + share θ_0, those of the model directory ``base`` being θ_0.

    Averaged in weights, models of one descent keep most of what either can (WARP, arXiv 2406.16768; against the price of
    alignment: arXiv 2309.06256).
    """
    first = dict(load(base, place="cpu")[0].named_parameters())
    own = dict(model.named_parameters())
    if {name: one.shape for name, one in own.items()} != {name: one.shape for name, one in first.items()}:
        raise CoevolveError(f"train.keep_base: {base} has other weights than the policy in training; set it to 0.0")
    with torch.no_grad():
        for name, one in own.items():
            one.copy_(one.float() * (1.0 - share) + first[name] * share)
    return model
