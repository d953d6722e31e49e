"""The part of `coevolve env check` that every environment has to pass, whatever its tasks are."""

from coevolve.audit.checks import CHECKS
from coevolve.audit.subject import Subject, findings
from coevolve.environments.environment import Environment

PROMISES = [key for key in CHECKS if key.startswith(("contract", "runtime"))]
PROMISES += ["semantic.oracle_max", "semantic.floor_gap"]


def violations(environment: Environment, count: int, *keys: str) -> dict[str, list[str]]:
    """The evidence of each failed check on ``count`` tasks of each split."""
    subject = Subject(environment, count, environment.name)
    return {one.check: one.evidence for one in findings(subject, keys or PROMISES) if one.number}
