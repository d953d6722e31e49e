"""Who acts in environments: models in this process, models behind an endpoint, and scripts."""

from pathlib import Path

from coevolve.params import PolicySection
from coevolve.policies.base import Policy


def open_policy(path: Path, knobs: PolicySection, temperature: float) -> Policy:
    """The model directory ``path`` as a policy, by the back end that ``policy.backend`` names."""
    if knobs.backend == "vllm":
        from coevolve.policies.vllm import engine_policy

        return engine_policy(path, knobs, temperature)
    from coevolve.policies.transformers import TransformersPolicy, load

    return TransformersPolicy(*load(path, knobs.threads, knobs.dtype), temperature, knobs.template)
