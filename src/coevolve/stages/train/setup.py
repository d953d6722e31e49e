"""Params as transformers' arguments, DeepSpeed's and peft's, with a clear error where they do not fit together."""

import os
from pathlib import Path
from typing import Any

import torch

from coevolve.core.errors import CoevolveError
from coevolve.core.launch import Launch, world_size
from coevolve.policies.config import PolicySection
from coevolve.stages.train.config import Lora, Optimizer

ROWS = "train.tasks_per_step × train.group_size"


def common(
    config: Optimizer,
    acting: PolicySection,
    launch: Launch,
    scratch: Path,
    seed: int,
    rate: float,
    rows: int,
    named: str = ROWS,
) -> dict[str, Any]:
    """Arguments of transformers' ``TrainingArguments`` that every learner has, for this process; ``rate`` is the learner's
    learning rate, ``rows`` are those of a step, ``named`` what errors call their number.

    Make them before the model: they tell it how it will be sharded.
    """
    cuda = torch.cuda.is_available()
    size, passes = _passes(config, rows, world_size(), named)
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    return {
        "output_dir": str(scratch),
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": passes,
        "max_steps": config.steps,
        "learning_rate": rate,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1.0,
        "save_strategy": "steps",
        "save_steps": config.save_steps,
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": "none",
        "use_cpu": not cuda,
        "bf16": cuda and acting.dtype == "bfloat16",
        "gradient_checkpointing": config.gradient_checkpointing,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": seed,
        "deepspeed": _deepspeed(launch),
        "ddp_find_unused_parameters": False if world_size() > 1 else None,
        "ddp_backend": "gloo" if world_size() > 1 and not cuda else None,
    }


def alone(launch: Launch) -> bool:
    """Whether one process trains, on a CPU: then others of this machine can help it."""
    return not torch.cuda.is_available() and launch.processes * launch.machines == 1 and launch.sharding == "none"


def weights_dtype(config: Optimizer, acting: PolicySection) -> str:
    """Of the weights in training: those that the optimizer changes are float32, or its small steps are lost."""
    return acting.dtype if config.lora.enabled else "float32"


def _passes(config: Optimizer, rows: int, world: int, named: str) -> tuple[int, int]:
    """Rows of one forward and backward pass of a process, and passes in a step."""
    size = config.micro_batch or rows // world
    if size == 0 or rows % (size * world):
        raise CoevolveError(
            f"{named} is {rows}, which {world} processes with "
            f"train.micro_batch {config.micro_batch} cannot share evenly; make it a multiple of {max(size, 1) * world}"
        )
    return size, rows // (size * world)


def _deepspeed(config: Launch) -> dict[str, Any] | None:
    """DeepSpeed's configuration for the sharding that is asked for; None without."""
    if config.sharding not in ("zero2", "zero3"):
        return None
    from importlib.util import find_spec

    if find_spec("deepspeed") is None:
        raise CoevolveError(
            f"launch.sharding: {config.sharding} needs DeepSpeed, which is not installed; `pip install -e '.[gpu]'`, or "
            "set it to none"
        )
    return {
        "zero_optimization": {
            "stage": 2 if config.sharding == "zero2" else 3,
            "overlap_comm": True,
            "contiguous_gradients": True,
            "stage3_gather_16bit_weights_on_model_save": True,
        },
        "zero_force_ds_cpu_optimizer": False,
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "steps_per_print": 10**9,
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
