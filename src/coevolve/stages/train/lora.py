"""Low-rank adapters, by peft."""

from typing import Any

import torch

from coevolve.core.errors import CoevolveError
from coevolve.stages.train.config import Lora


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
