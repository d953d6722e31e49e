"""Open model directories as policies, with the chosen back end and as many processes as the machine has for them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.core.processes import available, prepare
from coevolve.core.workers import Engine, Local, local
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Policy, Replicas
from coevolve.policies.pretrained import device, resolve


def prepare_players(engine: str = "local") -> None:
    """Start to import the modules that play a model, if the processes of `compute.engine` run on this machine.

    The import takes longer than the start of most stages.
    """
    if engine == "local" and available() > 1:
        prepare("coevolve.policies.transformers_policy")


def open_policy(
    path: Path, config: PolicySection, temperature: float, engine: Engine | None = None
) -> Policy | Replicas:
    """The model directory ``path`` as a policy, with the back end that ``policy.backend`` names.

    On a CPU, the workers of ``engine`` play it (by default, processes of this machine).
    """
    if config.backend == "vllm":
        from coevolve.policies.vllm_policy import engine_policy

        return engine_policy(path, config, temperature)
    return open_model(path, config.threads, config.dtype, temperature, config.template, engine)


@contextmanager
def playing(
    path: Path, config: PolicySection, temperature: float, engine: Engine | None = None
) -> Iterator[Policy | Replicas]:
    """``open_policy`` for the block. After the block its processes end and its memory is free."""
    policy = open_policy(path, config, temperature, engine)
    try:
        yield policy
    finally:
        if isinstance(policy, Replicas):
            policy.shutdown()


def open_model(
    path: Path,
    threads: int,
    dtype: str,
    temperature: float,
    template: Mapping[str, Any],
    engine: Engine | None = None,
) -> Policy | Replicas:
    """The model directory ``path`` by transformers.

    It uses one process on a GPU, and on a CPU as many as ``engine`` has (or as this machine has for this process).
    """
    workers = (engine or local()) if device() == "cpu" else None
    if isinstance(workers, Local):
        prepare_players()  # `_open` does not name the modules that the processes import
    # a pointer is valid only on this machine; the engine may send the files that it points to elsewhere
    arguments = (resolve(path), threads, dtype, temperature, template)
    return Replicas(workers, _open, *arguments) if workers else _open(*arguments)


def _open(*arguments: Any) -> Policy:
    """The policy of `open_transformers`. A process that only passes this function on does not import transformers."""
    from coevolve.policies.transformers_policy import open_transformers

    return open_transformers(*arguments)
