"""Section `validate`: limits of the next dataset and of the iteration that made it. Great Expectations checks both."""

from typing import Any, ClassVar

from pydantic import model_validator

from coevolve.core.section import Count, Section


class Limit(Section):
    """Limits of an indicator."""

    low_is_bad: ClassVar[bool] = False

    limit: float
    """Value past which the report warns."""
    critical: float | None = None
    """Value past which the pipeline stops before the next iteration; null never stops it."""


class Floor(Limit):
    """Limits of an indicator that is bad if it is low."""

    low_is_bad: ClassVar[bool] = True


class Validate(Section):
    max_turn_characters: Count = 4000
    """Most characters of an instruction; longer instructions go to quarantine."""
    max_calls: Count = 40
    """Most calls of a reference; longer references go to quarantine."""
    tasks: Floor = Floor(limit=16, critical=16)
    """Tasks of the next dataset."""
    largest_family: Limit = Limit(limit=0.6, critical=0.6)
    """Share of the next dataset's largest family, if it is larger than among the environment's own tasks."""
    action_entropy: Floor = Floor(limit=0.5, critical=0.2)
    """Evenness of the agent's tool use: Shannon entropy of its valid calls over the largest possible entropy."""
    duplicate_trajectories: Limit = Limit(limit=0.9)
    """Share of attempts, after the first of their group, whose calls repeat another attempt."""
    duplicate_tasks: Limit = Limit(limit=0.3, critical=0.9)
    """Share of candidates that repeat a known task."""
    drift: Limit = Limit(limit=0.3, critical=0.6)
    """Change of the tools that references use, from this dataset to the next: Jensen-Shannon divergence in bits."""
    zero_variance: Limit = Limit(limit=0.7)
    """Share of groups whose attempts all have the same reward, so that they teach nothing."""
    regressions: Limit = Limit(limit=0.1, critical=0.25)
    """Share of visited, once-solved tasks that the agent solved less often on the last visit, beyond chance."""
    stagnant: Limit = Limit(limit=0.5)
    """Share of the loop's tasks, solved at least once at first, whose success has not risen after two more visits, chance included."""
    environment_failed: Limit = Limit(limit=0.02, critical=0.2)
    """Share of attempts in which the environment failed; no statistics count them."""
    refused: Limit = Limit(limit=0.0)
    """Share of kinds of tasks that are never solved because the environment refuses or cannot read the answers."""
    unreadable: Limit = Limit(limit=0.5)
    """Share of the agent's replies with a call that cannot be read: the agent may write another form of calls."""
    margin: Limit = Limit(limit=3.0)
    """Beta times the difference of the log-ratios of both sides of a pair, in the last step."""
    chosen: Floor = Floor(limit=-1.0)
    """Beta times the log-ratio of the preferred episodes in the last step: below 0, they have become less likely."""
    failure_success: Limit = Limit(limit=0.8)
    """Share of the failure agent's episodes that succeed, which teach no failure."""
    failure_idle: Limit = Limit(limit=0.5)
    """Share of the failure agent's failures that do nothing."""
    failure_distinct: Floor = Floor(limit=0.2)
    """Share of the failure agent's failures at a task that differ in calls."""
    generator_valid: Floor = Floor(limit=0.5, critical=0.1)
    """Share of the generator's output that is a valid spec of known tools."""
    generator_entropy: Floor = Floor(limit=0.5, critical=0.2)
    """Evenness of the tools that the generator names: Shannon entropy of its goals over the largest possible entropy."""
    generator_sample: Floor = Floor(limit=0.05)
    """Effective share of the generations in the generator's update: low if few generations carry all weight."""

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, values: Any) -> Any:
        """Let params.yaml set one of an indicator's two limits, and keep the other."""
        if not isinstance(values, dict):
            return values
        limits = {name: limit.model_dump() for name, limit in LIMITS.items()}
        return {
            name: {**limits[name], **given} if name in limits and isinstance(given, dict) else given
            for name, given in values.items()
        }


_FIELDS = {name: field for name, field in Validate.model_fields.items() if isinstance(field.default, Limit)}
LIMITS: dict[str, Limit] = {name: field.default for name, field in _FIELDS.items()}  # by indicator
MEANING = {name: f"{text[0].lower()}{text[1:-1]}" for name, field in _FIELDS.items() if (text := field.description)}
LOW_IS_BAD = frozenset(name for name, limit in LIMITS.items() if limit.low_is_bad)
