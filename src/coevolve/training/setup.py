"""Params as TRL's arguments and peft's adapters, with a clear error where they do not fit together."""

import os
from pathlib import Path
from typing import Any

import torch
from trl import GRPOConfig

from coevolve.errors import CoevolveError
from coevolve.launch import deepspeed, world_size
from coevolve.params import Launch, Lora, PolicySection, Train
from coevolve.policies.vllm import require_vllm

SERVER_PATIENCE = 240.0  # seconds to wait for a vLLM server


def arguments(knobs: Train, acting: PolicySection, launch: Launch, scratch: Path, seed: int) -> Any:
    """TRL's arguments for this process. Make them before the model: they tell it how it will be sharded."""
    cuda = torch.cuda.is_available()
    size, passes = _passes(knobs, world_size())
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    return GRPOConfig(
        output_dir=str(scratch),
        per_device_train_batch_size=size,
        num_generations=knobs.group_size,
        steps_per_generation=passes,
        gradient_accumulation_steps=passes,
        max_steps=knobs.steps,
        learning_rate=knobs.learning_rate,
        lr_scheduler_type="constant",
        beta=knobs.beta,
        epsilon=knobs.epsilon,
        epsilon_high=knobs.epsilon_high,
        temperature=knobs.temperature,
        max_grad_norm=1.0,
        save_strategy="steps",
        save_steps=knobs.save_steps,
        save_total_limit=2,
        ignore_data_skip=True,
        shuffle_dataset=False,
        logging_steps=1,
        report_to="none",
        use_cpu=not cuda,
        bf16=cuda and acting.dtype == "bfloat16",
        gradient_checkpointing=knobs.gradient_checkpointing,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=seed,
        deepspeed=deepspeed(launch),
        ddp_find_unused_parameters=False if world_size() > 1 else None,
        ddp_backend="gloo" if world_size() > 1 and not cuda else None,
        **_vllm(knobs, acting),
    )


def _passes(knobs: Train, world: int) -> tuple[int, int]:
    """Rows of one forward and backward pass of a process, and passes in a step."""
    rows = knobs.tasks_per_step * knobs.group_size
    size = knobs.micro_batch or rows // world
    if size == 0 or rows % (size * world):
        raise CoevolveError(
            f"train.tasks_per_step × train.group_size is {rows}, which {world} processes with "
            f"train.micro_batch {knobs.micro_batch} cannot share evenly; make it a multiple of {max(size, 1) * world}"
        )
    return size, rows // (size * world)


def _vllm(knobs: Train, acting: PolicySection) -> dict[str, Any]:
    if knobs.vllm.mode == "off":
        return {}
    require_vllm(f"train.vllm.mode: {knobs.vllm.mode}")
    return {
        "use_vllm": True,
        "vllm_mode": knobs.vllm.mode,
        "vllm_gpu_memory_utilization": knobs.vllm.memory,
        "vllm_max_model_length": acting.max_tokens,
        "vllm_server_base_url": knobs.vllm.url if knobs.vllm.mode == "server" else None,
        "vllm_server_timeout": SERVER_PATIENCE,
    }


def adapters(knobs: Lora, model: Any) -> Any:
    """LoRA (arXiv 2106.09685) on the layers that ``knobs.targets`` name; None without."""
    if not knobs.enabled:
        if knobs.quantize != "none":
            raise CoevolveError("train.lora.quantize needs train.lora.enabled: quantized weights cannot be trained")
        return None
    from peft import LoraConfig

    targets = knobs.targets
    if targets != "all-linear":
        layers = {name.rsplit(".", 1)[-1] for name, one in model.named_modules() if isinstance(one, torch.nn.Linear)}
        named = [targets] if isinstance(targets, str) else list(targets)
        unknown = [name for name in named if name not in layers]
        if unknown:
            raise CoevolveError(
                f"train.lora.targets: the model has no layer {', '.join(unknown)}; it has: {', '.join(sorted(layers))}, "
                "or all-linear"
            )
        targets = named
    return LoraConfig(task_type="CAUSAL_LM", r=knobs.rank, lora_alpha=knobs.alpha, target_modules=targets)
