"""Turn parameters into arguments of TRL, transformers and peft, with a clear error where they do not fit together."""

import os
from pathlib import Path
from typing import Any

import torch

from coevolve.core.errors import CoevolveError, install
from coevolve.core.launch import Launch, world_size
from coevolve.policies.config import PolicySection
from coevolve.policies.transformers_policy import load
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
    rows_name: str = ROWS,
) -> dict[str, Any]:
    """The arguments of transformers' ``TrainingArguments`` that all learners share, for this process.

    ``rate`` is the learning rate and ``rows`` the number of rows in a step; errors call this number ``rows_name``. Create the
    arguments before the model: they decide how it is sharded.
    """
    cuda = torch.cuda.is_available()
    size, passes = _passes(config, rows, world_size(), rows_name)
    if not cuda:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    return {
        "output_dir": str(scratch),
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": passes,
        "max_steps": config.steps,
        "learning_rate": rate,
        "lr_scheduler_type": config.schedule,
        "max_grad_norm": 1.0,
        "save_strategy": "steps",
        "save_steps": config.save_steps,
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": "none",
        "use_cpu": not cuda,
        # on a CPU helper processes share the passes over all weights, and only this process would round
        "bf16": acting.dtype == "bfloat16" and (cuda or config.lora.enabled),
        "gradient_checkpointing": config.gradient_checkpointing,
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": seed,
        "deepspeed": _deepspeed(launch),
        "ddp_find_unused_parameters": False if world_size() > 1 else None,
        "ddp_backend": "gloo" if world_size() > 1 and not cuda else None,
    }


def weights_dtype(config: Optimizer, acting: PolicySection) -> str:
    """The dtype of the weights in training: weights that the optimizer changes are float32, or it would lose small steps."""
    return acting.dtype if config.lora.enabled else "float32"


def _passes(config: Optimizer, rows: int, world: int, rows_name: str) -> tuple[int, int]:
    """The rows in one pass of a process, and its passes in a step."""
    size = config.micro_batch or rows // world
    if size == 0 or rows % (size * world):
        section = "warm" if rows_name.startswith("warm") else "train"
        processes = "1 process" if world == 1 else f"{world} processes"
        raise CoevolveError(
            f"{rows_name} is {rows}, which {processes} with {section}.micro_batch {config.micro_batch} cannot share evenly; "
            f"make it a multiple of {max(size, 1) * world}"
        )
    return size, rows // (size * world)


def _deepspeed(config: Launch) -> dict[str, Any] | None:
    """DeepSpeed's configuration for ``launch.sharding``; None without DeepSpeed's sharding."""
    if config.sharding not in ("zero2", "zero3"):
        return None
    from importlib.util import find_spec

    if find_spec("deepspeed") is None:
        raise CoevolveError(
            f"launch.sharding: {config.sharding} needs DeepSpeed, which is not installed; run `{install('gpu')}`, or "
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


def load_parent(parent: Path, config: Optimizer, acting: PolicySection, anchored: bool) -> tuple[Any, Any]:
    """The model to train and its tokenizer. All weights need gradients, Adam's two moments, and the anchor."""
    dtype, copies = weights_dtype(config, acting), 1 if config.lora.enabled else 4 + anchored
    return load(parent, acting.threads, dtype, config.lora.quantize, copies=copies)


def adapters(config: Lora, model: Any) -> Any:
    """The configuration of LoRA (arXiv 2106.09685) for the layers in ``config.targets``; None if it is not enabled."""
    if not config.enabled:
        if config.quantize != "none":
            raise CoevolveError("train.lora.quantize needs train.lora.enabled: quantized weights cannot be trained")
        return None
    from peft import LoraConfig

    targets = config.targets
    if targets != "all-linear":
        modules = model.named_modules()
        layers = {name.rsplit(".", 1)[-1] for name, module in modules if isinstance(module, torch.nn.Linear)}
        targets = [targets] if isinstance(targets, str) else list(targets)
        unknown = [name for name in targets if name not in layers]
        if unknown:
            raise CoevolveError(
                f"train.lora.targets: the model has no layer {', '.join(unknown)}; it has: {', '.join(sorted(layers))}, "
                "or all-linear"
            )
    return LoraConfig(task_type="CAUSAL_LM", r=config.rank, lora_alpha=config.alpha, target_modules=targets)
