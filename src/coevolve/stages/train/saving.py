"""The trained policy as a model directory: whole or absent, adapters merged, shards (``sharded``: ZeRO-3) brought together."""

import os
import shutil
from pathlib import Path
from typing import Any

from coevolve.core.launch import is_main
from coevolve.policies.transformers_policy import load


def save(trainer: Any, tokenizer: Any, parent: Path, policy: Path, scratch: Path, dtype: str, sharded: bool) -> None:
    """Write what ``trainer`` has made of ``parent`` to ``policy``; every process calls it, one writes.

    Adapters are merged into the weights of ``parent`` as they are, also where training saw them quantized.
    """
    model = trainer.accelerator.unwrap_model(trainer.model)
    temporary = policy.with_name(f".{policy.name}.tmp")
    if is_main():
        policy.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
    adapted = hasattr(model, "merge_and_unload")
    if adapted or sharded:
        place = scratch / "adapter" if adapted else temporary
        trainer.save_model(str(place))  # brings shards together: a matter of all processes
        trainer.accelerator.wait_for_everyone()
        if is_main():
            (place / "training_args.bin").unlink(missing_ok=True)
    if not is_main():
        return
    if adapted:
        from peft import PeftModel
        from transformers.integrations.deepspeed import unset_hf_deepspeed_config

        unset_hf_deepspeed_config()  # or the parent would be loaded in shards
        whole, _ = load(parent, dtype=dtype, place="cpu")
        PeftModel.from_pretrained(whole, scratch / "adapter").merge_and_unload().save_pretrained(temporary)
    elif not temporary.exists():
        model.save_pretrained(temporary)
    tokenizer.save_pretrained(temporary)
    shutil.rmtree(policy, ignore_errors=True)
    os.replace(temporary, policy)
