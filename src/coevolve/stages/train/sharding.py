"""Sharding by DeepSpeed: spread the optimizer, gradients and weights of one model over several processes."""

from typing import Any

from coevolve.core.errors import CoevolveError, install
from coevolve.core.launch import Launch


def deepspeed(config: Launch) -> dict[str, Any] | None:
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
