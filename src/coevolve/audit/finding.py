"""The table of checks, and the findings of an audit."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from coevolve.audit.subject import Subject
from coevolve.core.concurrency import Threads
from coevolve.core.errors import CoevolveError
from coevolve.core.interruptions import named, remedy_for
from coevolve.core.io import write_json
from coevolve.core.plugins import place_of
from coevolve.core.untrusted import one_line
from coevolve.environments.environment import Environment
from coevolve.rollout import UNANSWERED

Severity = Literal["fail", "warn", "advisory"]
SEVERITIES: tuple[Severity, ...] = ("fail", "warn", "advisory")  # the worst first
COUNT = 25  # tasks to check in each split
SHOWN, EVIDENCE = 10, 300  # most pieces of evidence in a finding, and characters of each
FILE = "audit.json"
RAISED = (
    "repair what raises this; see `Environment` and `Session` in environments/environment.py for what each method does"
)

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
    """The outcome of the check ``key``, which runs in a thread of its own like the sessions of the loop.

    Every exception of the environment is a violation, and so is a call that never ends.
    """
    severity, remedy, run = CHECKS[key]
    found: list[str] = []

    def answer() -> None:
        _ = subject.some  # played before the check opens a session: there may be room for few
        found.extend(run(subject))

    thread = Threads(1, key).take()
    done = thread.submit(answer)
    subject.deadline.restart()
    while (tick := subject.deadline.tick()) and not wait([done], tick).done:
        pass
    thread.end()
    severity = severity if done.done() else "fail"  # whatever else the check would have found
    error = done.exception() if done.done() else TimeoutError(UNANSWERED.format(subject.max_seconds))
    first_of_all = key == next(iter(CHECKS))
    subject.stopped = not done.done() or (first_of_all and (error is not None or not any(subject.some.values())))
    if error is not None:
        remedy = remedy_for(named(error)) or RAISED
        subject.raised.setdefault(named(error), key)
        found.append(named(error) + place_of(error))
    known = [next((first for text, first in subject.raised.items() if text in line), key) for line in found]
    if found and key not in known:
        found, remedy = [f"the same exception as in {known[0]}"], ""
    shown = [one_line(line, EVIDENCE) for line in found[:SHOWN]]
    return Finding(key, severity, (run.__doc__ or "").splitlines()[0], len(found), shown, remedy)


def findings(subject: Subject, keys: Iterable[str]) -> Iterator[Finding]:
    """The outcomes of the checks ``keys``, up to one after which no other makes sense."""
    for key in keys:
        yield finding(subject, key)
        if subject.stopped:
            return


def place(environment: Environment) -> Path:
    """The file of the last audit of ``environment``."""
    return Path("scratch/audits") / environment.name / FILE


def write(environment: Environment, findings: Iterable[Finding], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, asdict(Audit(environment.name, environment.fingerprint, list(findings))))
