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
from coevolve.stages.validate.indicators import FEW, refused
from tests.unit.environments.quiz import Quiz, QuizSession
from tests.unit.test_rollout import Says


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
SAID = [{"role": "assistant", "content": "5"}]
WRONG = Reply("answer 5", [ToolCall("answer", {"value": "5"})], [1], [2], [0.0], False, "", False)
CUT = Reply("let me think", [], [1], [2], [0.0], False, "", True)


def told(policy: Policy, environment: Environment, attempts: Sequence[Attempt] = ()) -> tuple[float | None, list[str]]:
    tasks = environment.tasks("seed")
    requests = [RolloutRequest(task, 0, sample=sample) for task in tasks for sample in range(FEW // 4)]
    episodes = [episode.trajectory for episode in rollout(policy, environment, requests, Limits(6, 10**6, 100, 600.0))]
    return refused(episodes, tasks, environment.category, attempts)


def kinds(notes: Sequence[str]) -> list[str]:
    return [note.split("“")[1].split("”")[0] for note in notes]


def test_watchdog_names_the_kind_that_a_broken_parser_loses() -> None:
    share, (note,) = told(ReferencePolicy(Deaf()), Deaf())
    assert share == pytest.approx(1 / 3)
    assert "kind “sum_4”" in note and "100%" in note
    value = next(task for task in Quiz().tasks("seed") if task.family == "sum_4").calls[0].arguments["value"]
    call = f'answer(value="{value}")'
    assert f"Such as: {call} got “cannot parse the answer”; the reference has {call}. Another form" in note


@pytest.mark.parametrize("reply", [PROSE, GARBLED])
def test_agent_with_another_format_loses_all_kinds(reply: Reply) -> None:
    share, lines = told(Says(reply), Quiz())
    assert share == 1.0 and kinds(lines) == ["sum_2", "sum_4", "sum_8"]
    assert all(f"Such as: {reply.text!r}; the reference has answer(value=" in line for line in lines)


@pytest.mark.parametrize("reply", [WRONG, CUT])
def test_wrong_answers_and_truncated_replies_are_no_format_errors(reply: Reply) -> None:
    assert told(Says(reply), Quiz()) == (0.0, [])


def test_one_earlier_success_shows_that_the_format_is_known() -> None:
    (solved,) = [task for task in Quiz().tasks("seed") if task.family == "sum_4"][:1]
    share, lines = told(Says(PROSE), Quiz(), [Attempt(solved.task_id, 0, 0, 0.1, 8, 1)])
    assert share == pytest.approx(2 / 3) and kinds(lines) == ["sum_2", "sum_8"]


def test_few_or_failed_episodes_give_no_verdict() -> None:
    (task, *_) = tasks = Quiz().tasks("seed")
    ended = Trajectory("t", task.task_id, 0, 0, 0, 0, [], [], 0.0, StopReason.INVALID)
    failed = replace(ended, stop_reason=StopReason.ENVIRONMENT_FAILED)
    assert refused([ended] * (FEW - 1) + [failed] * FEW, tasks, lambda task: "sums", []) == (None, [])
    share, lines = refused([replace(ended, messages=SAID)] * FEW, tasks, lambda task: "sums", [])
    assert share == 1.0 and kinds(lines) == ["sums"]
