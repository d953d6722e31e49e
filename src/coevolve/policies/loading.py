"""Who acts in environments: models in this process, models behind an endpoint, and scripts."""

from pathlib import Path

from coevolve.core.params import PolicySection
from coevolve.policies.policy import Policy


def open_policy(path: Path, config: PolicySection, temperature: float) -> Policy:
    """The model directory ``path`` as a policy, by the back end that ``policy.backend`` names."""
    if config.backend == "vllm":
        from coevolve.policies.vllm_policy import engine_policy

        return engine_policy(path, config, temperature)
    from coevolve.policies.transformers_policy import TransformersPolicy, load

    return TransformersPolicy(*load(path, config.threads, config.dtype), temperature, config.template)
