"""Model directories as policies, by the back end and in as many processes as the machine has for them."""

from pathlib import Path

from coevolve.core.params import PolicySection
from coevolve.core.processes import available
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas


def open_policy(path: Path, config: PolicySection, temperature: float) -> Policy | Replicas:
    """The model directory ``path`` as a policy, by the back end that ``policy.backend`` names.

    On a GPU, and by vLLM, one process has it to itself.
    """
    if config.backend == "vllm":
        from coevolve.policies.vllm_policy import engine_policy

        return engine_policy(path, config, temperature)
    from coevolve.policies.transformers_policy import device, open_transformers

    arguments = (path, config.threads, config.dtype, temperature, config.template)
    count = available() if device() == "cpu" else 1
    return Replicas(count, open_transformers, *arguments) if count > 1 else open_transformers(*arguments)
