"""Episodes that the environment failed count in no pass rate, but they count as costs."""

import errno
from collections import Counter
from dataclasses import replace

import pytest

from coevolve.core.learnability import Record, variance
from coevolve.core.records import Gate, Verdict
from coevolve.core.task import Observation, Task, ToolCall
from coevolve.endpoint.spending import Meter
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits
from coevolve.stages.verify.config import Select
from coevolve.stages.verify.judge import Judged, PassCount, summary
from coevolve.stages.verify.pass_rates import pass_counts, with_pass_rates
from coevolve.stages.verify.select import select
from coevolve_environments.miniworld.miniworld_environment import Miniworld
from coevolve_environments.miniworld.session import MiniworldSession
from tests.unit.stages.train.small import WORLD
from tests.waiting import PATIENCE

TASKS = list(WORLD.tasks("seed")[:3])
SOUND, FRAGILE, LOST = TASKS
FAILURES = {FRAGILE.task_id: 3, LOST.task_id: 4}  # the environment fails in the first episodes of these tasks
SAMPLES = 4
LIMITS = Limits(20, 10**6, 64, PATIENCE)


class FailingSession(MiniworldSession):
    def __init__(self, started: Counter[str]) -> None:
        super().__init__()
        self._started, self._fails = started, False

    def reset(self, task: Task) -> Observation:
        self._started[task.task_id] += 1
        self._fails = self._started[task.task_id] <= FAILURES.get(task.task_id, 0)
        return super().reset(task)

    def step(self, call: ToolCall) -> Observation:
        if self._fails:
            raise OSError(errno.EIO, "the disk is gone")
        return super().step(call)


class FailingWorld(Miniworld):
    def __init__(self) -> None:
        super().__init__()
        self._started: Counter[str] = Counter()

    def open(self) -> MiniworldSession:
        return FailingSession(self._started)


@pytest.fixture(scope="module")
def counts() -> dict[str, PassCount]:
    return pass_counts(ReferencePolicy(WORLD), FailingWorld(), TASKS, LIMITS, SAMPLES, 0, lambda count: None)


@pytest.fixture(scope="module")
def measured(counts: dict[str, PassCount]) -> list[Judged]:
    verdicts = [Verdict(task.task_id, task.task_id, True, [Gate("readable", True)]) for task in TASKS]
    return with_pass_rates([Judged(verdict, task) for verdict, task in zip(verdicts, TASKS, strict=True)], counts)


def test_failed_episode_is_played_but_does_not_count(counts: dict[str, PassCount]) -> None:
    assert counts == {
        SOUND.task_id: PassCount(4, 4, played=4),
        FRAGILE.task_id: PassCount(1, 1, played=4),
        LOST.task_id: PassCount(0, 0, played=4),
    }


def test_pass_rate_is_the_share_of_counted_episodes(measured: list[Judged]) -> None:
    assert [verdict.pass_rate for verdict, _ in measured] == [1.0, 1.0, None]


def test_selection_trusts_one_episode_less_than_four(measured: list[Judged]) -> None:
    kept = [one.verdict for one in select(measured, Select(keep=1, variety=0.0))]
    assert [verdict.accepted for verdict in kept] == [False, True, False]
    always, never = variance(Record(4, 4).chance), 0.0
    assert kept[0].gates[-1].reason == f"pass rate 1.00: others are worth more than {always:.2f}"
    assert kept[2].gates[-1].reason == f"pass rate unknown: others are worth more than {never:.2f}"


def test_failed_episodes_are_among_the_costs(measured: list[Judged]) -> None:
    figures = summary(0, measured, Meter(None)).figures
    assert figures["pass rate episodes"] == 3 * SAMPLES and figures["pass rate"] == 1.0
    played = [replace(one, count=None) for one in measured]
    assert summary(0, played, Meter(None)).figures["pass rate episodes"] == 0
