"""Audit whether an environment is fit for training: run every check of the table and collect the findings."""

import json
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import coevolve
from coevolve.audit.checks import CHECKS, Check
from coevolve.audit.finding import SHOWN, Audit, Finding, Found, Measured, Status
from coevolve.audit.subject import Subject
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json, write_text
from coevolve.core.processes import Worker, WorkerDied, WorkerLate, prepare
from coevolve.core.untrusted import one_line
from coevolve.environments.registry import MakerFailed, opened
from coevolve.stages.report.page.html_page import html_page

JSON, PAGE = "audit.json", "index.html"
COUNT = 25  # tasks to check in each split
SECONDS = 600.0  # time limit of each check
OPENING = 60.0  # fewest seconds for an environment to open, because it may import much
EVIDENCE = 300  # most characters of a piece of evidence
GIVE_UP = 2  # checks that did not end before the audit skips all others


def audit(
    place: str,
    count: int = COUNT,
    only: Collection[str] = (),
    progress: Callable[[Finding], object] = lambda finding: None,
    begin: Callable[[str, str], object] = lambda name, fingerprint: None,
    seconds: float = SECONDS,
) -> Audit:
    """Run all checks, or those that ``only`` names, on the environment at ``place``: its name, or MODULE:CLASS.

    They run in another process, which has ``seconds`` for each check. If the environment raises an error, ends the process or
    never answers, this is a finding. ``begin`` gets its name and fingerprint, ``progress`` each finding.
    """
    if unknown := sorted(set(only) - set(CHECKS)):
        raise CoevolveError(f"--only: no check {', '.join(unknown)}; expected some of: {', '.join(CHECKS)}")
    name, fingerprint, findings = place, "unknown", []
    tasks: dict[str, int] = {}
    looked_at: dict[str, int] = {}
    with _Process(seconds, place, count) as process:
        with suppress(_Unanswered):  # the checks will report it
            name, fingerprint = process.ask("about")
        begin(name, fingerprint)
        for key in [key for key in CHECKS if not only or key in only]:
            began = time.perf_counter()
            try:
                answer, *sizes = process.ask("check", key)
                found = Finding(**answer)
                tasks, looked_at = sizes if all(sizes) else (tasks, looked_at)
            except (_Unanswered, CoevolveError) as error:
                failed = Found(False, {}, [str(error)])
                found = _finding(key, CHECKS[key], failed, "error", _command(place, count, key), began)
            findings.append(found)
            progress(found)
    return Audit(name, fingerprint, coevolve.__version__, tasks, looked_at, findings)


def write(audit: Audit, folder: Path) -> list[Path]:
    """Write audit.json, and a page for people, to ``folder``. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / JSON, {**asdict(audit), "worst": audit.worst(), "counts": audit.counts()})
    write_text(folder / PAGE, html_page("coevolve.audit", "audit.html.j2", audit=audit, figure=_figure))
    return [folder / JSON, folder / PAGE]


def _figure(value: int | float | str | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class _Unanswered(Exception):
    """The auditor's process did not answer a request."""


class _Process:
    """The process of an ``Auditor``. It starts again after a request that ended it."""

    def __init__(self, seconds: float, *arguments: Any) -> None:
        self._seconds, self._arguments, self._late = seconds, arguments, 0
        self._worker: Worker | None = None
        prepare(Auditor.__module__)

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def ask(self, method: str, *arguments: str) -> Any:
        """The answer to a request. Raises a CoevolveError if the environment refuses to open."""
        if self._late >= GIVE_UP:
            raise _Unanswered(f"not run, because {GIVE_UP} earlier checks did not end")
        try:
            if self._worker is None:
                self._worker = Worker(Auditor, *self._arguments)
                self._worker.seconds = max(self._seconds, OPENING)
                self._worker.call("about")
            self._worker.seconds = self._seconds
            return json.loads(self._worker.call(method, *arguments))
        except WorkerLate:
            self._late += 1
            reason = f"it did not end within {self._seconds:g} s; --seconds gives it more"
        except WorkerDied as error:
            reason = f"the environment ended the process ({error.how})"
        except (RuntimeError, OSError, MemoryError) as error:
            reason = f"the environment does not open: {(str(error).strip().splitlines() or [repr(error)])[-1]}"
        self.__exit__()
        raise _Unanswered(reason)


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
        found = _judged(self._subject, name, CHECKS[name])
        known = vars(self._subject)  # cached properties that are already computed
        tasks = {one_line(split): len(tasks) for split, tasks in known.get("splits", {}).items()}
        looked_at = {one_line(split): len(tasks) for split, tasks in known.get("some", {}).items()}
        return json.dumps([asdict(found), tasks, looked_at])


def _judged(subject: Subject, name: str, check: Check) -> Finding:
    """Run ``check``. Every exception of the environment is a finding, even one that would end a process."""
    began = time.perf_counter()
    status: Status
    try:
        found = check.run(subject)
        status = "skip" if found.passed is None else "pass" if found.passed else "fail"
    except BaseException as error:
        found, status = Found(False, {}, [f"{type(error).__name__}: {error}"]), "error"
    return _finding(name, check, found, status, _command(subject.place, subject.count, name), began)


def _finding(name: str, check: Check, found: Found, status: Status, repeat: str, began: float) -> Finding:
    return Finding(
        check=name,
        severity=check.severity,
        status=status,
        question=check.question,
        measured=_measured(found.measured),
        evidence=[one_line(line, EVIDENCE) for line in found.evidence[:SHOWN]],
        number=len(found.evidence),
        remedy=check.remedy,
        command=repeat,
        seconds=round(time.perf_counter() - began, 2),
    )


def _command(place: str, count: int, name: str) -> str:
    """The command that repeats a check."""
    return f"coevolve env audit {place} --tasks {count} --only {name}"


def _measured(values: Measured) -> Measured:
    """``values`` in a form that JSON can hold."""

    def held(value: Any) -> int | float | str | None:
        number = isinstance(value, int | float) and abs(value) < 1e15
        return value if value is None or number else one_line(str(value))

    return {one_line(key): held(value) for key, value in values.items()}
