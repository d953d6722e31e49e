"""The records of an audit: a finding for each check, and the verdict.

The table of checks gives each check its severity, as in OpenEnv's RFC 008. A check itself does not decide it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["pass", "fail", "skip", "error"]
Severity = Literal["fail", "warn", "advisory"]
SEVERITIES: tuple[Severity, ...] = ("fail", "warn", "advisory")  # the worst first
SHOWN = 10  # most pieces of evidence in a finding

Measured = dict[str, int | float | str | None]


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a check. ``passed`` is None if there was nothing to check. ``measured`` are its figures. ``evidence`` has a line
    for each violation.
    """

    passed: bool | None
    measured: Measured = field(default_factory=dict)
    evidence: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's outcome. ``number`` counts all violations, and ``evidence`` holds some of them. ``command`` repeats the check."""

    check: str
    severity: Severity
    status: Status
    question: str
    measured: Measured
    evidence: list[str]
    number: int
    remedy: str
    command: str
    seconds: float

    @property
    def bad(self) -> bool:
        return self.status in ("fail", "error")


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings about an environment, and the numbers of checked tasks."""

    environment: str
    fingerprint: str
    version: str
    tasks: dict[str, int]
    looked_at: dict[str, int]
    findings: list[Finding]

    def worst(self) -> Severity | None:
        """The highest severity among failed checks; None if no check failed."""
        found = {one.severity for one in self.findings if one.bad}
        return next((severity for severity in SEVERITIES if severity in found), None)

    def past(self, limit: Severity) -> bool:
        """Whether a check of severity ``limit`` or worse failed."""
        worst = self.worst()
        return worst is not None and SEVERITIES.index(worst) <= SEVERITIES.index(limit)

    def counts(self) -> dict[str, int]:
        """The numbers of checks that passed, were skipped, and failed, by severity."""
        bad = [one.severity for one in self.findings if one.bad]
        return {
            "passed": sum(one.status == "pass" for one in self.findings),
            "skipped": sum(one.status == "skip" for one in self.findings),
            **{f"failed: {severity}": bad.count(severity) for severity in SEVERITIES},
        }
