"""A model that learns beside the agent, as a folder: weights of its own or else those of another model, and adapters on them.

``agent.json`` says how many adapters there are, and of what other model they are (``on``). Whole weights stand in ``model``, adapters in
``adapter-0`` and so on, each learned on top of those before. A model of many billions so costs an adapter an iteration.
"""

import shutil
from pathlib import Path

from coevolve.core.io import read_json, write_json

MANIFEST, WHOLE, ADAPTER = "agent.json", "model", "adapter_config.json"


def start(folder: Path, on: Path | None = None) -> None:
    """Before it has learned anything: the model directory ``on`` as it is, or nothing yet."""
    _renew(folder, 0, on.as_posix() if on else None)


def opened(folder: Path, place: Path, dtype: str) -> Path:
    """The model directory of what is in ``folder``: its own, or the other; made in ``place``, if adapters are to be merged."""
    other = _on(folder)
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
    """Into ``folder``, what is in ``before`` as it is after it has ``learned``: a model directory, an adapter, or nothing."""
    adapters, whole, other = _adapters(before), before / WHOLE, _on(before)
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


def _on(folder: Path) -> str | None:
    found: str | None = read_json(folder / MANIFEST)["on"]
    return found


def _renew(folder: Path, adapters: int, on: str | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    write_json(folder / MANIFEST, {"adapters": adapters, "on": on})
