"""Audit whether an environment is fit for training: run every check of the table and collect the findings."""

import json
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import coevolve
from coevolve.audit.auditor import Auditor, command
from coevolve.audit.checks import CHECKS, Check
from coevolve.audit.finding import Audit, Finding
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json, write_text
from coevolve.core.processes import Worker, WorkerDied, WorkerLate, prepare
from coevolve.core.untrusted import one_line
from coevolve.stages.report.page.html_page import html_page

JSON, PAGE = "audit.json", "index.html"
COUNT = 25  # tasks to check in each split
SECONDS = 600.0  # time limit of each check
OPENING = 60.0  # fewest seconds for an environment to open, because it may import much
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
                found = _unanswered(key, CHECKS[key], command(place, count, key), error, time.perf_counter() - began)
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


def _unanswered(key: str, check: Check, repeat: str, error: Exception, seconds: float) -> Finding:
    return Finding(
        check=key,
        severity=check.severity,
        status="error",
        question=check.question,
        measured={},
        evidence=[one_line(str(error))],
        number=1,
        remedy=check.remedy,
        command=repeat,
        seconds=round(seconds, 2),
    )
