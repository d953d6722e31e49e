"""Model directories as policies, by the back end and in as many processes as the machine has for them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.core.processes import available, prepare
from coevolve.core.workers import Engine, Local, local
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Policy
from coevolve.policies.pretrained import resolve
from coevolve.policies.replicas import Replicas


def prepare_players(engine: str = "local") -> None:
    """Begin to import what plays a model, where the processes of `compute.engine` come from: if that is this machine, it takes
    longer than most stages' own start.
    """
    if engine == "local" and available() > 1:
        prepare("coevolve.policies.transformers_policy")


def open_policy(
    path: Path, config: PolicySection, temperature: float, engine: Engine | None = None
) -> Policy | Replicas:
    """The model directory ``path`` as a policy, by the back end that ``policy.backend`` names; on a CPU by the workers of ``engine``
    (by default, processes of this machine).
    """
    if config.backend == "vllm":
        from coevolve.policies.vllm_policy import engine_policy

        return engine_policy(path, config, temperature)
    return open_model(path, config.threads, config.dtype, temperature, config.template, engine)


@contextmanager
def playing(
    path: Path, config: PolicySection, temperature: float, engine: Engine | None = None
) -> Iterator[Policy | Replicas]:
    """``open_policy``, for as long as it plays: then its processes end, and its memory is free for another."""
    policy = open_policy(path, config, temperature, engine)
    try:
        yield policy
    finally:
        if isinstance(policy, Replicas):
            policy.close()


def open_model(
    path: Path,
    threads: int,
    dtype: str,
    temperature: float,
    template: Mapping[str, Any],
    engine: Engine | None = None,
) -> Policy | Replicas:
    """The model directory ``path`` by transformers: one process on a GPU, on a CPU as many as ``engine`` has (or there are for us)."""
    workers = (engine or local()) if device() == "cpu" else None
    if isinstance(workers, Local):
        prepare_players()  # `_open` does not name what they import
    # a pointer means something on this machine alone; the engine may send the files it points to elsewhere
    arguments = (resolve(path), threads, dtype, temperature, template)
    return Replicas(workers, _open, *arguments) if workers else _open(*arguments)


def device() -> str:
    """Where models go: this process's GPU, or the CPU."""
    import torch

    return f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu"


def _open(*arguments: Any) -> Policy:
    """The policy of `open_transformers`. Whoever only hands this function on does not import transformers."""
    from coevolve.policies.transformers_policy import open_transformers

    return open_transformers(*arguments)
