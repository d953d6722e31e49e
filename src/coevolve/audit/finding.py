"""The table of checks, and the findings of an audit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from coevolve.audit.subject import Subject
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json
from coevolve.core.untrusted import one_line
from coevolve.environments.environment import Environment

Severity = Literal["fail", "warn", "advisory"]
SEVERITIES: tuple[Severity, ...] = ("fail", "warn", "advisory")  # the worst first
COUNT = 25  # tasks to check in each split
SHOWN, EVIDENCE = 10, 300  # most pieces of evidence in a finding, and characters of each
FILE = "audit.json"

Run = Callable[[Subject], Iterator[str]]
CHECKS: dict[str, tuple[Severity, str, Run]] = {}  # name → severity, remedy, and the lines of evidence


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check: the number of violations, and some of them."""

    check: str
    severity: Severity
    question: str
    number: int
    evidence: list[str]
    remedy: str


@dataclass(frozen=True, slots=True)
class Audit:
    environment: str
    fingerprint: str
    findings: list[Finding]


def check(key: str, severity: Severity, remedy: str) -> Callable[[Run], Run]:
    """Adds a function to CHECKS. Its docstring begins with the question that people read."""

    def add(run: Run) -> Run:
        CHECKS[key] = severity, remedy, run
        return run

    return add


def chosen(only: Sequence[str], names: Iterable[str]) -> list[str]:
    """The ``names`` that begin with an entry of ``only``; all without entries."""
    if unknown := [one for one in only if not any(key.startswith(one) for key in names)]:
        raise CoevolveError(f"--only: no check {', '.join(unknown)}; expected some of: {', '.join(names)}")
    return [key for key in names if not only or key.startswith(tuple(only))]


def finding(subject: Subject, key: str) -> Finding:
    """The outcome of the check ``key``."""
    severity, remedy, run = CHECKS[key]
    found: list[str] = []
    try:
        found.extend(run(subject))
    except (Exception, SystemExit) as error:  # every error of the environment's code is a finding
        found.append(f"{type(error).__name__}: {error}")
    shown = [one_line(line, EVIDENCE) for line in found[:SHOWN]]
    return Finding(key, severity, (run.__doc__ or "").splitlines()[0], len(found), shown, remedy)


def place(environment: Environment) -> Path:
    """The file of the last audit of ``environment``."""
    return Path("scratch/audits") / environment.name / FILE


def write(environment: Environment, findings: Iterable[Finding], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, asdict(Audit(environment.name, environment.fingerprint, list(findings))))
