"""A kind of tasks that is lost to an answer format is reported. Hard tasks are not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from coevolve.core.records import Attempt
from coevolve.core.task import Observation, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy, Reply
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.watch.refused import FEW, notes, refused, share
from coevolve.stages.watch.watchdogs import MEANING, indicators
from tests.unit.environments.quiz import Quiz, QuizSession
from tests.unit.stages.train.small import PARAMS
from tests.unit.test_rollout import Says

CONFIG = PARAMS.watch


class Deaf(Quiz):
    """Its parser rejects answers to sums of four numbers."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            if len(self._numbers) == 4:
                return Observation("tool", "cannot parse the answer", error=True)
            return super().step(call)

    def open(self) -> QuizSession:
        return self.Play()


PROSE = Reply("the answer is 5", [], [1], [2], [0.0], False, "", False)
GARBLED = Reply("<tool_call>{answer}", [], [1], [2], [0.0], True, "a call must end with </tool_call>", False)
WRONG = Reply("answer 5", [ToolCall("answer", {"value": "5"})], [1], [2], [0.0], False, "", False)
CUT = Reply("let me think", [], [1], [2], [0.0], False, "", True)


def kinds(policy: Policy, environment: Environment, attempts: Sequence[Attempt] = ()) -> dict[str, float | None]:
    return told(policy, environment, attempts)[0]


def told(
    policy: Policy, environment: Environment, attempts: Sequence[Attempt] = ()
) -> tuple[dict[str, float | None], list[str]]:
    tasks = {task.task_id: task for task in environment.tasks("seed")}
    requests = [RolloutRequest(task, 0, sample=sample) for task in tasks.values() for sample in range(FEW // 4)]
    episodes = [episode.trajectory for episode in rollout(policy, environment, requests, Limits(6, 10**6, 100, 600.0))]
    names = {task.task_id: environment.category(task) for task in tasks.values()}
    found = refused(episodes, tasks, names, attempts)
    return found, notes(found, episodes, tasks, names)


def test_watchdog_names_the_kind_that_a_broken_parser_loses() -> None:
    found, (note,) = told(ReferencePolicy(Deaf()), Deaf())
    assert found == {"sum_2": None, "sum_4": 1.0, "sum_8": None} and share(found) == pytest.approx(1 / 3)
    assert "kind “sum_4”" in note and "100%" in note
    value = next(task for task in Quiz().tasks("seed") if task.family == "sum_4").calls[0].arguments["value"]
    call = f'answer(value="{value}")'
    assert f"Such as: {call} got “cannot parse the answer”; the reference has {call}. Another form" in note
    values = {**dict.fromkeys(MEANING, None), "refused": share(found)}
    (indicator,) = [one for one in indicators(values, CONFIG) if one.name == "refused"]
    assert indicator.state == "limit" and "refused 0.33 is above 0" in str(indicator)


@pytest.mark.parametrize("reply", [PROSE, GARBLED])
def test_agent_with_another_format_loses_all_kinds(reply: Reply) -> None:
    found, lines = told(Says(reply), Quiz())
    assert found == {"sum_2": 1.0, "sum_4": 1.0, "sum_8": 1.0} and share(found) == 1.0
    assert all(f"Such as: {reply.text!r}; the reference has answer(value=" in line for line in lines)


@pytest.mark.parametrize("reply", [WRONG, CUT])
def test_wrong_answers_and_truncated_replies_are_no_format_errors(reply: Reply) -> None:
    assert share(kinds(Says(reply), Quiz())) == 0.0


def test_one_earlier_success_shows_that_the_format_is_known() -> None:
    (solved,) = [task for task in Quiz().tasks("seed") if task.family == "sum_4"][:1]
    found = kinds(Says(PROSE), Quiz(), [Attempt(solved.task_id, 0, 0, 0.1, 8, 1)])
    assert found == {"sum_2": 1.0, "sum_4": None, "sum_8": 1.0}


def test_few_or_failed_episodes_give_no_verdict() -> None:
    tasks = {task.task_id: task for task in Quiz().tasks("seed")}
    (task, *_) = tasks.values()
    kinds = dict.fromkeys(tasks, "sums")
    ended = Trajectory("t", task.task_id, 0, 0, 0, 0, [], [], 0.0, StopReason.INVALID)
    failed = replace(ended, stop_reason=StopReason.ENVIRONMENT_FAILED)
    assert refused([ended] * (FEW - 1) + [failed] * FEW, tasks, kinds, []) == {} and share({}) is None
    assert refused([ended] * FEW, tasks, kinds, []) == {"sums": 1.0}
