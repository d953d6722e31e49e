"""What an audit says: a finding for each check, and the verdict.

A check has no opinion of how bad it is that it fails: the table of checks gives each its severity, as OpenEnv's RFC 008 does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["pass", "fail", "skip", "error"]
Severity = Literal["fail", "warn", "advisory"]
SEVERITIES: tuple[Severity, ...] = ("fail", "warn", "advisory")  # the worst first
SHOWN = 10  # pieces of evidence

Measured = dict[str, int | float | str | None]


@dataclass(frozen=True, slots=True)
class Found:
    """What a check saw. ``passed`` is None where there was nothing to look at; ``measured`` are its figures, and ``evidence`` says what
    speaks against the environment, a line each.
    """

    passed: bool | None
    measured: Measured = field(default_factory=dict)
    evidence: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A check's outcome. ``number`` counts all evidence, of which ``evidence`` holds some; ``command`` repeats the check."""

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
    """All findings about an environment, and what was looked at."""

    environment: str
    fingerprint: str
    version: str
    tasks: dict[str, int]
    looked_at: dict[str, int]
    policy: str | None
    findings: list[Finding]

    def worst(self) -> Severity | None:
        """The severity of the worst that was found; None if nothing speaks against the environment."""
        found = {one.severity for one in self.findings if one.bad}
        return next((severity for severity in SEVERITIES if severity in found), None)

    def past(self, limit: Severity) -> bool:
        """Whether anything of severity ``limit``, or worse, was found."""
        worst = self.worst()
        return worst is not None and SEVERITIES.index(worst) <= SEVERITIES.index(limit)

    def counts(self) -> dict[str, int]:
        """How many checks passed, were skipped, and failed by their severity."""
        bad = [one.severity for one in self.findings if one.bad]
        return {
            "passed": sum(one.status == "pass" for one in self.findings),
            "skipped": sum(one.status == "skip" for one in self.findings),
            **{f"failed: {severity}": bad.count(severity) for severity in SEVERITIES},
        }
