"""Low-rank adapters, by peft."""

from typing import Any

import torch

from coevolve.core.errors import CoevolveError
from coevolve.stages.train.config import Lora


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
