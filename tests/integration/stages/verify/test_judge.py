"""Verification by workers gives the verdicts of one process, and survives candidates that end or hold a worker."""

import os
import signal
import threading

import pytest

from coevolve.core.task import ToolCall
from coevolve.core.workers import Local
from coevolve.stages.verify.judge import Judge, Judged, verify
from coevolve.stages.verify.library import Library
from tests.unit.stages.verify.test_verify import ADD, DONE, GARBAGE, PANELS, candidate, failed, line


def test_order_is_kept_and_two_processes_agree_with_one() -> None:
    adding = [ToolCall("add_event", {"title": f"event number {n}", "day": "monday"}) for n in range(12)]
    many = [
        line(candidate(f"plan event number {n} for monday please", [add, DONE], [[0, 0]], n))
        for n, add in enumerate(adding)
    ]
    mixed = [*many[:6], *GARBAGE[:5], *many[6:]]
    one = verify("miniworld", mixed, Library([], PANELS, 0.95))
    two = verify("miniworld", mixed, Library([], PANELS, 0.95), engine=Local(2))
    assert one == two
    assert [found.accepted for found, _ in one] == [True] * 6 + [False] * 5 + [True] * 6


def test_a_candidate_that_ends_or_holds_its_process_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.stages.verify.judge.Judge", Fragile)
    monkeypatch.setattr("coevolve.stages.verify.judge.SECONDS", 10.0)
    lines = [line(candidate(f"plan event {n} for monday please", [ADD, DONE], [[0, 0]], n)) for n in range(18)]
    found = [one for one, _ in verify("miniworld", lines, Library([], {}, 0.99), engine=Local(2), words="none")]
    reasons = {row: failed(one) for row, one in enumerate(found) if not one.accepted}
    assert reasons == {11: [("readable", "kills the process")], 17: [("readable", "takes longer than 10 s")]}


class Fragile(Judge):
    """Its process ends at one candidate, and never ends at another."""

    def judge(self, line: str) -> Judged:
        if "plan event 11 " in line:
            os.kill(os.getpid(), signal.SIGKILL)
        if "plan event 17 " in line:
            threading.Event().wait()
        return super().judge(line)
