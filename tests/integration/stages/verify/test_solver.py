"""The gate `solvable`: a served model attempts accepted tasks from their words alone. Server and model are real."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

from coevolve.core.records import Verdict
from coevolve.core.task import Task
from coevolve.endpoint.client import open_endpoint
from coevolve.rollout import Limits
from coevolve.stages.verify.judge import Judged
from coevolve.stages.verify.solver import Solver
from tests.unit.stages.train.small import PARAMS, WORLD
from tests.waiting import PATIENCE

TASKS = WORLD.tasks("seed")[:6]


def misworded(task: Task) -> Task:
    return Task.create(task.environment, task.split, ["tell me the balance of the wallet"], task.world, task.reference)


def accepted(task: Task) -> Judged:
    return Judged(Verdict(task.task_id, task.task_id, True, []), task)


def solve(
    server: tuple[str, str], log: Path, judged: list[Judged], **changes: object
) -> tuple[list[Judged], Counter[str]]:
    updates = {"url": server[0], "model": server[1], "temperature": 1.0, "timeout": PATIENCE, **changes}
    endpoint = open_endpoint(PARAMS.endpoint.model_copy(update=updates), log)
    counts: Counter[str] = Counter()
    try:
        limits = replace(Limits.of(PARAMS.policy), max_seconds=PATIENCE)
        return Solver(WORLD, endpoint, limits, 4, 0, counts).judge(judged, lambda count: None), counts
    finally:
        endpoint.close()


def test_solver_rejects_tasks_that_cannot_be_solved_from_their_words(
    tiny_server: tuple[str, str], tmp_path: Path
) -> None:
    rejected = Judged(Verdict("bad", None, False, []))
    before = [*map(accepted, TASKS), rejected, *(accepted(misworded(task)) for task in TASKS)]
    after, counts = solve(tiny_server, tmp_path / "log", before)
    assert after[len(TASKS)] == rejected  # nobody tries what was rejected already
    sound, wrong = after[: len(TASKS)], after[len(TASKS) + 1 :]
    assert [task for _, task in after] == [task for _, task in before]
    assert any(verdict.accepted for verdict, _ in sound)
    for verdict, _ in wrong:
        assert not verdict.accepted
        assert verdict.gates[-1].name == "solvable"
        assert "not solvable from its words" in verdict.gates[-1].reason
        assert "4 of 4" in verdict.gates[-1].reason
    assert not any(counts.values())


def test_answered_request_is_not_sent_again(tiny_server: tuple[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = solve(tiny_server, log, [accepted(TASKS[0])])
    size = log.stat().st_size
    assert solve(tiny_server, log, [accepted(TASKS[0])]) == first
    assert log.stat().st_size == size


def test_solver_rejects_nothing_without_an_answer(tiny_server: tuple[str, str], tmp_path: Path) -> None:
    judged = [accepted(misworded(TASKS[0]))]
    [(verdict, _)], counts = solve(tiny_server, tmp_path / "log", judged, budget_requests=1)
    assert verdict.accepted
    assert verdict.gates[-1].passed is None
    assert counts["out of budget"] == 4
