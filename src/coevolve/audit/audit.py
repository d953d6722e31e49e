"""Is an environment fit to be trained on? Every check of the table, and what each saw."""

import time
from collections.abc import Callable, Collection, Mapping

import coevolve
from coevolve.audit.checks import CHECKS, Check
from coevolve.audit.finding import SHOWN, Audit, Finding, Found, Status
from coevolve.audit.subject import Subject
from coevolve.core.errors import CoevolveError


def audit(
    subject: Subject,
    checks: Mapping[str, Check] = CHECKS,
    only: Collection[str] = (),
    progress: Callable[[Finding], object] = lambda finding: None,
    policy: str | None = None,
) -> Audit:
    """Run ``checks``, or those of them that ``only`` names. What a third party's code raises is a finding."""
    if unknown := sorted(set(only) - set(checks)):
        raise CoevolveError(f"--only: no check {', '.join(unknown)}; expected some of: {', '.join(checks)}")
    environment = subject.environment
    findings = []
    for name, check in checks.items():
        if not only or name in only:
            findings.append(_finding(subject, name, check))
            progress(findings[-1])
    return Audit(
        environment=environment.name,
        fingerprint=environment.fingerprint,
        version=coevolve.__version__,
        tasks={split: len(tasks) for split, tasks in subject.splits.items()},
        looked_at={split: len(tasks) for split, tasks in subject.some.items()},
        policy=policy,
        findings=findings,
    )


def _finding(subject: Subject, name: str, check: Check) -> Finding:
    began = time.perf_counter()
    status: Status
    try:
        found = check.run(subject)
        status = "skip" if found.passed is None else "pass" if found.passed else "fail"
    except Exception as error:
        found, status = Found(False, {}, [f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]), "error"
    return Finding(
        check=name,
        severity=check.severity,
        status=status,
        question=check.question,
        measured=found.measured,
        evidence=list(found.evidence[:SHOWN]),
        number=len(found.evidence),
        remedy=check.remedy,
        command=f"coevolve env audit {subject.environment.name} --tasks {subject.count} --only {name}",
        seconds=round(time.perf_counter() - began, 2),
    )
