"""Run the checks of an environment in this process. An audit uses a separate process, which the environment may end or block."""

import json
import time
from dataclasses import asdict
from typing import Any

from coevolve.audit.checks import CHECKS, Check
from coevolve.audit.finding import SHOWN, Finding, Found, Measured, Status
from coevolve.audit.subject import Subject
from coevolve.core.untrusted import one_line
from coevolve.environments.registry import MakerFailed, opened

EVIDENCE = 300  # most characters of a piece of evidence


class Auditor:
    """Answers requests with JSON, so that no object of the environment leaves the process."""

    def __init__(self, place: str, count: int) -> None:
        try:
            environment = opened(place)
        except MakerFailed as error:  # a finding of the audit, unlike a name that does not exist
            raise RuntimeError(str(error)) from None
        self._subject = Subject(environment, count, place)

    def about(self) -> str:
        """The environment's name and fingerprint as JSON."""
        environment = self._subject.environment
        return json.dumps([one_line(str(text), EVIDENCE) for text in (environment.name, environment.fingerprint)])

    def check(self, name: str) -> str:
        """The finding of a check, with the numbers of all tasks and of checked tasks, if they are known."""
        found = finding(self._subject, name, CHECKS[name])
        known = vars(self._subject)  # cached properties that are already computed
        tasks = {one_line(split): len(tasks) for split, tasks in known.get("splits", {}).items()}
        looked_at = {one_line(split): len(tasks) for split, tasks in known.get("some", {}).items()}
        return json.dumps([asdict(found), tasks, looked_at])


def finding(subject: Subject, name: str, check: Check) -> Finding:
    """Run ``check``. Every exception of the environment is a finding, even one that would end a process."""
    began = time.perf_counter()
    status: Status
    try:
        found = check.run(subject)
        status = "skip" if found.passed is None else "pass" if found.passed else "fail"
    except BaseException as error:
        found, status = Found(False, {}, [f"{type(error).__name__}: {error}"]), "error"
    return Finding(
        check=name,
        severity=check.severity,
        status=status,
        question=check.question,
        measured=_measured(found.measured),
        evidence=[one_line(line, EVIDENCE) for line in found.evidence[:SHOWN]],
        number=len(found.evidence),
        remedy=check.remedy,
        command=command(subject.place, subject.count, name),
        seconds=round(time.perf_counter() - began, 2),
    )


def command(place: str, count: int, name: str) -> str:
    """The command that repeats a check."""
    return f"coevolve env audit {place} --tasks {count} --only {name}"


def _measured(values: Measured) -> Measured:
    """``values`` in a form that JSON can hold."""

    def held(value: Any) -> int | float | str | None:
        number = isinstance(value, int | float) and abs(value) < 1e15
        return value if value is None or number else one_line(str(value))

    return {one_line(key): held(value) for key, value in values.items()}
