"""Params as TRL's arguments and peft's adapters, with a clear error where they do not fit together."""

import os
from pathlib import Path
from typing import Any

import torch
from trl import GRPOConfig

from coevolve.core.errors import CoevolveError
from coevolve.core.launch import deepspeed, world_size
from coevolve.core.params import Launch, Lora, PolicySection, Train
from coevolve.policies.vllm_policy import require_vllm

SERVER_PATIENCE = 240.0  # seconds to wait for a vLLM server


def arguments(config: Train, acting: PolicySection, launch: Launch, scratch: Path, seed: int) -> Any:
    """TRL's arguments for this process. Make them before the model: they tell it how it will be sharded."""
    cuda = torch.cuda.is_available()
    size, passes = _passes(config, world_size())
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    return GRPOConfig(
        output_dir=str(scratch),
        per_device_train_batch_size=size,
        num_generations=config.group_size,
        steps_per_generation=passes,
        gradient_accumulation_steps=passes,
        max_steps=config.steps,
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant",
        beta=config.beta,
        epsilon=config.epsilon,
        epsilon_high=config.epsilon_high,
        temperature=config.temperature,
        max_grad_norm=1.0,
        save_strategy="steps",
        save_steps=config.save_steps,
        save_total_limit=2,
        ignore_data_skip=True,
        shuffle_dataset=False,
        logging_steps=1,
        report_to="none",
        use_cpu=not cuda,
        bf16=cuda and acting.dtype == "bfloat16",
        gradient_checkpointing=config.gradient_checkpointing,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=seed,
        deepspeed=deepspeed(launch),
        ddp_find_unused_parameters=False if world_size() > 1 else None,
        ddp_backend="gloo" if world_size() > 1 and not cuda else None,
        **_vllm(config, acting),
    )


def _passes(config: Train, world: int) -> tuple[int, int]:
    """Rows of one forward and backward pass of a process, and passes in a step."""
    rows = config.tasks_per_step * config.group_size
    size = config.micro_batch or rows // world
    if size == 0 or rows % (size * world):
        raise CoevolveError(
            f"train.tasks_per_step × train.group_size is {rows}, which {world} processes with "
            f"train.micro_batch {config.micro_batch} cannot share evenly; make it a multiple of {max(size, 1) * world}"
        )
    return size, rows // (size * world)


def _vllm(config: Train, acting: PolicySection) -> dict[str, Any]:
    if config.vllm.mode == "off":
        return {}
    require_vllm(f"train.vllm.mode: {config.vllm.mode}")
    return {
        "use_vllm": True,
        "vllm_mode": config.vllm.mode,
        "vllm_gpu_memory_utilization": config.vllm.memory,
        "vllm_max_model_length": acting.episode_tokens,
        "vllm_server_base_url": config.vllm.url if config.vllm.mode == "server" else None,
        "vllm_server_timeout": SERVER_PATIENCE,
    }


def adapters(config: Lora, model: Any) -> Any:
    """LoRA (arXiv 2106.09685) on the layers that ``config.targets`` name; None without."""
    if not config.enabled:
        if config.quantize != "none":
            raise CoevolveError("train.lora.quantize needs train.lora.enabled: quantized weights cannot be trained")
        return None
    from peft import LoraConfig

    targets = config.targets
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
    return LoraConfig(task_type="CAUSAL_LM", r=config.rank, lora_alpha=config.alpha, target_modules=targets)
