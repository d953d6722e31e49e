"""Section `watch`: the limits of the watchdogs."""

from typing import Any

from pydantic import model_validator

from coevolve.core.section import Section


class Limit(Section):
    """Limits of a watchdog's indicator."""

    limit: float
    """Value past which the report warns."""
    critical: float | None = None
    """Value past which the pipeline stops before the next iteration; null never stops it."""


class Watch(Section):
    action_entropy: Limit = Limit(limit=0.5, critical=0.2)
    """Normalised entropy of the agent's valid calls over the tools; low is bad."""
    duplicate_trajectories: Limit = Limit(limit=0.9)
    """Share of attempts that repeat another attempt of their group."""
    duplicate_tasks: Limit = Limit(limit=0.3, critical=0.9)
    """Share of candidates that repeat a known task."""
    drift: Limit = Limit(limit=0.3, critical=0.6)
    """Divergence of the tools in references, in bits, from a dataset to itself plus the accepted tasks, before review."""
    zero_variance: Limit = Limit(limit=0.7)
    """Share of groups in which all attempts score the same."""
    regressions: Limit = Limit(limit=0.1, critical=0.25)
    """Share of once-solved tasks that are now solved less often, beyond chance."""
    stagnant: Limit = Limit(limit=0.5)
    """Share of synthesized tasks, visited at least three times, that are solved no more often than at first."""
    environment_failed: Limit = Limit(limit=0.02, critical=0.2)
    """Share of attempts in which the environment failed; they do not count."""
    refused: Limit = Limit(limit=0.0)
    """Share of kinds of tasks that are never solved because the environment refuses or cannot read the answers."""
    unreadable: Limit = Limit(limit=0.5)
    """Share of the agent's replies with a call that cannot be read; high means another form of calls than the template's."""
    margin: Limit = Limit(limit=3.0)
    """Preference margin in the last step; high means that the pairs teach no more."""
    chosen: Limit = Limit(limit=-1.0)
    """Log-ratio of the preferred episodes; low means that they became unlikely too."""
    failure_success: Limit = Limit(limit=0.8)
    """Success of the failure agent; high means that it has little to learn from."""
    failure_idle: Limit = Limit(limit=0.5)
    """Share of the failure agent's failures that do nothing."""
    failure_distinct: Limit = Limit(limit=0.2)
    """Share of the failure agent's failures that differ in their calls; low is bad."""
    generator_valid: Limit = Limit(limit=0.5, critical=0.1)
    """Share of the generator's output that is a valid spec; low is bad."""
    generator_entropy: Limit = Limit(limit=0.5, critical=0.2)
    """Normalised entropy of the tools that the generator names; low is bad."""
    generator_sample: Limit = Limit(limit=0.05)
    """Effective sample size of the generator's update, as a share; low is bad."""

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, values: Any) -> Any:
        """Let params.yaml set one of an indicator's two limits, and keep the other."""
        if not isinstance(values, dict):
            return values
        return {
            name: {**cls.model_fields[name].default.model_dump(), **given}
            if name in cls.model_fields and isinstance(given, dict)
            else given
            for name, given in values.items()
        }
