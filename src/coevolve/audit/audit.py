"""Is an environment fit to be trained on? Every check of the table, and what each saw."""

import json
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import coevolve
from coevolve.audit.auditor import Auditor, command, table
from coevolve.audit.checks import Check
from coevolve.audit.finding import Audit, Finding
from coevolve.audit.skill import Skill
from coevolve.core.errors import CoevolveError
from coevolve.core.processes import Worker, WorkerDied, WorkerLate, prepare
from coevolve.core.untrusted import one_line

COUNT = 25  # tasks of each split that are looked at
SECONDS = 600.0  # of each check
OPENING = 60.0  # seconds that an environment has to open, at least: it may import much
GIVE_UP = 2  # checks that did not end, after which the others are not run


def audit(
    place: str,
    count: int = COUNT,
    only: Collection[str] = (),
    progress: Callable[[Finding], object] = lambda finding: None,
    begin: Callable[[str, str], object] = lambda name, fingerprint: None,
    skill: Skill | None = None,
    seconds: float = SECONDS,
) -> Audit:
    """Run all checks, or those that ``only`` names, on the environment at ``place``: its name, or MODULE:CLASS.

    They run in another process, which has ``seconds`` for each check. Whatever the environment does is a finding: it raises,
    ends the process, or never answers. ``begin`` gets its name and fingerprint, ``progress`` each finding.
    """
    checks = table(skill)
    if unknown := sorted(set(only) - set(checks)):
        raise CoevolveError(f"--only: no check {', '.join(unknown)}; expected some of: {', '.join(checks)}")
    name, fingerprint, findings = place, "unknown", []
    tasks: dict[str, int] = {}
    looked_at: dict[str, int] = {}
    with _Process(seconds, place, count, skill) as process:
        with suppress(_Unanswered):  # as the checks will say
            name, fingerprint = process.ask("about")
        begin(name, fingerprint)
        for key in [key for key in checks if not only or key in only]:
            began = time.perf_counter()
            try:
                answer, *sizes = process.ask("check", key)
                found = Finding(**answer)
                tasks, looked_at = sizes if all(sizes) else (tasks, looked_at)
            except (_Unanswered, CoevolveError) as error:
                found = _unanswered(key, checks[key], command(place, count, key), error, time.perf_counter() - began)
            findings.append(found)
            progress(found)
    policy = skill.folder if skill else None
    return Audit(name, fingerprint, coevolve.__version__, tasks, looked_at, policy, findings)


class _Unanswered(Exception):
    """A question that the auditor's process did not answer."""


class _Process:
    """The process of an ``Auditor``, started again after a question that ended it."""

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
        """The answer. A CoevolveError is the environment's refusal to open."""
        if self._late >= GIVE_UP:
            raise _Unanswered(f"not run, because {GIVE_UP} checks before it did not end")
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
