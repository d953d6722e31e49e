"""The folder of a helper model (failure agent, task generator): full weights, or a base model and a stack of adapters.

``agent.json`` holds the number of adapters, and the base model (``on``) if it is another model. Full weights are in ``model``,
adapters in ``adapter-0`` and so on, each trained on top of the earlier ones. So an iteration of a model with many billions of
weights costs only an adapter.
"""

import shutil
from pathlib import Path

from coevolve.core.io import read_json, write_json

MANIFEST, WHOLE, ADAPTER = "agent.json", "model", "adapter_config.json"


def start(folder: Path, on: Path | None = None) -> None:
    """Write the folder of a model before any training: the model directory ``on`` unchanged, or no model yet."""
    _renew(folder, 0, on.as_posix() if on else None)


def opened(folder: Path, place: Path, dtype: str) -> Path:
    """The model directory for ``folder``: its own or the other model's. With adapters, the merged model is written to ``place``."""
    other = read_json(folder / MANIFEST)["on"]
    whole = Path(other) if other else folder / WHOLE
    adapters = _adapters(folder)
    if not adapters:
        return whole
    from peft import PeftModel

    from coevolve.policies.transformers_policy import load

    model, tokenizer = load(whole, dtype=dtype, place="cpu")
    for one in adapters:
        model = PeftModel.from_pretrained(model, one).merge_and_unload()
    shutil.rmtree(place, ignore_errors=True)
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def write(folder: Path, before: Path, learned: Path | None = None) -> None:
    """Write to ``folder`` the model in ``before`` after it has ``learned``: a model directory, an adapter, or None."""
    adapters, whole, other = _adapters(before), before / WHOLE, read_json(before / MANIFEST)["on"]
    if learned and (learned / ADAPTER).exists():
        adapters = [*adapters, learned]
    elif learned:
        adapters, whole, other = [], learned, None
    _renew(folder, len(adapters), other)
    if whole.exists():
        shutil.copytree(whole, folder / WHOLE)
    for number, one in enumerate(adapters):
        shutil.copytree(one, folder / f"adapter-{number}")


def _adapters(folder: Path) -> list[Path]:
    return [folder / f"adapter-{number}" for number in range(read_json(folder / MANIFEST)["adapters"])]


def _renew(folder: Path, adapters: int, on: str | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    write_json(folder / MANIFEST, {"adapters": adapters, "on": on})
