"""Stored trajectories get the score that they have in today's environment, and the reason if it is another."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coevolve.audit.rescoring import (
    CHECKER,
    IMPOSSIBLE,
    LEFT,
    SAME,
    UNKNOWN,
    WORLD,
    Rescored,
    counted,
    replies,
    rescore,
    with_scores,
)
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.policies.agent_prompt import parse_reply, render_call
from coevolve.policies.loading import open_model
from coevolve.policies.policy import Conversation, Policy, Reply
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from tests import ROOT
from tests.unit.environments.quiz import Quiz, QuizSession

LIMITS = Limits(8, 300, 64, 60.0)


class ScriptPolicy:
    """Gives fixed replies: ``scripts`` holds the replies of each conversation, by its seed."""

    name = "script"

    def __init__(self, scripts: Sequence[Sequence[str]]) -> None:
        self._scripts = scripts
        self._said: dict[int, int] = {}

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._said = {}

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        replies = []
        for one in conversations:
            place = self._said[one.key] = self._said.get(one.key, -1) + 1
            script = self._scripts[one.seed]
            text = script[place] if place < len(script) else "done"
            calls, error = parse_reply(text)
            replies.append(Reply(text, calls, invalid=bool(error), error=error))
        return replies


def played(environment: Environment, policy: Policy, tasks: Sequence[Task]) -> list[Trajectory]:
    requests = [RolloutRequest(task, seed) for seed, task in enumerate(tasks)]
    return [one.trajectory for one in rollout(policy, environment, requests, LIMITS)]


def again(environment: Environment, tasks: Sequence[Task], trajectories: Sequence[Trajectory]) -> list[Rescored]:
    return list(rescore(environment, {task.task_id: task for task in tasks}, trajectories))


def test_nothing_changes_where_nothing_changed() -> None:
    world = make("miniworld")
    tasks = world.tasks("seed")[:24]
    for corruption in (0.0, 0.4):
        trajectories = played(world, ReferencePolicy(world, corruption, parallel=corruption == 0.0), tasks)
        found = again(world, tasks, trajectories)
        assert {one.kind for one in found} == {SAME}, [one for one in found if one.kind != SAME][:1]
        assert with_scores(trajectories, found) == trajectories


def test_whatever_a_model_says_is_played_as_it_was() -> None:
    world = make("miniworld")
    tasks = world.tasks("validation")[:48]
    policy: Any = open_model(ROOT / "policies/base", 1, "float32", 1.5, {})  # hot enough to say what cannot be read
    trajectories = played(world, policy, tasks)
    assert len({one.stop_reason for one in trajectories}) > 1
    assert any("not readable" in message["content"] for one in trajectories for message in one.messages)
    assert {one.kind for one in again(world, tasks, trajectories)} == {SAME}


def test_replies_are_told_from_what_was_heard() -> None:
    quiz = Quiz()
    (task, *_) = quiz.tasks("seed")
    call = render_call(ToolCall("answer", {"value": "1"}))
    unread, said = played(quiz, ScriptPolicy([["<tool_call>nonsense</tool_call>", call], ["let me think"]]), [task] * 2)
    assert list(replies(unread)) == [(call, 1)], "what could not be read was never carried out"
    assert list(replies(said)) == [("let me think", 0)]
    cut = replace(said, stop_reason=StopReason.MAX_TOKENS)
    assert list(replies(cut)) == [], "what was cut off was never said"


class Strict(Quiz):
    """Its checker takes no sum of two numbers any more."""

    class Play(QuizSession):
        def score(self) -> Score:
            score = super().score()
            return score if len(self._numbers) > 2 else Score(0.0, {"right": False})

    def open(self) -> QuizSession:
        return self.Play()


class Polite(Quiz):
    """It says thanks by now."""

    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            return replace(super().step(call), content="thanks")

    def open(self) -> QuizSession:
        return self.Play()


class Fragile(Quiz):
    class Play(QuizSession):
        def step(self, call: ToolCall) -> Observation:
            raise ZeroDivisionError

    def open(self) -> QuizSession:
        return self.Play()


def test_a_checker_and_a_world_that_changed_are_told_apart() -> None:
    quiz = Quiz()
    tasks = quiz.tasks("seed")
    trajectories = played(quiz, ReferencePolicy(quiz), tasks)
    found = again(Strict(), tasks, trajectories)
    assert counted(found) == {SAME: 8, CHECKER: 4, WORLD: 0, LEFT: 0, UNKNOWN: 0, IMPOSSIBLE: 0}
    assert sum(not one.holds for one in found) == 4
    changed = next(one for one in found if one.kind == CHECKER)
    assert (changed.before, changed.after, changed.why) == (1.0, 0.0, "right: True before, False now")
    scores = [one.score for one in with_scores(trajectories, found)]
    assert scores == [0.0] * 4 + [1.0] * 8 and with_scores(trajectories, found)[0].checks == {"right": False}
    world = again(Polite(), tasks, trajectories)
    assert counted(world)[WORLD] == 12 and world[0].why == "call 1 (answer) gets 'thanks' now, 'taken' before"
    assert with_scores(trajectories, world) == trajectories, "an episode that went otherwise is another"
    broken = again(Fragile(), tasks, trajectories)[0]
    assert broken.kind == WORLD and broken.after == 0.0 and "ZeroDivisionError" in broken.why


def test_what_cannot_be_played_again_is_left_and_says_why() -> None:
    quiz = Quiz()
    tasks = quiz.tasks("seed")[:2]
    one, other = played(quiz, ReferencePolicy(quiz), tasks)
    broken, late = (replace(one, score=0.0, stop_reason=reason) for reason in (StopReason.BROKEN, StopReason.TIMEOUT))
    found = again(quiz, tasks[:1], [broken, late, other])
    assert [new.kind for new in found] == [LEFT, LEFT, UNKNOWN] and found[0].after is None
    assert "broke" in found[0].why and "did not end" in found[1].why and "--tasks" in found[2].why
    assert with_scores([broken, late, other], found) == [broken, late], "nobody knows the score of an unknown task"
    assert [new.holds for new in found] == [True, True, False]
    moved = replace(one, messages=[{"role": "user", "content": "add 1 + 1"}, *one.messages[1:]])
    assert again(quiz, tasks, [moved])[0].why == "the first message has other words"


DEEP: Any = {"value": []}
for _ in range(100):
    DEEP = {"value": DEEP}
FORGERIES: dict[str, Any] = {
    "it failed": lambda one: one,
    "it broke": lambda one: replace(one, stop_reason=StopReason.BROKEN),
    "its task is unknown": lambda one: replace(one, task_id="f" * 16),
    "it has no messages": lambda one: replace(one, messages=[]),
    "it has no calls": lambda one: replace(one, calls=[]),
    "its call is too deep": lambda one: replace(one, calls=[replace(one.calls[0], arguments=DEEP)]),
    "another answer": lambda one: replace(one, calls=[replace(one.calls[0], observation="right!")]),
    "another opening": lambda one: replace(one, messages=[{"role": "user", "content": "hi"}, *one.messages[1:]]),
    "its checks too": lambda one: replace(one, checks={"right": True}),
    "a score of 7, in another world": lambda one: replace(
        one, score=7.0, messages=[{"role": "user", "content": "hi"}, *one.messages[1:]]
    ),
    "no number": lambda one: replace(one, score=float("nan")),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_no_forged_score_holds(name: str) -> None:
    """A failed episode of a quiz, whose record says that it succeeded."""
    quiz = Quiz()
    (task, *_) = quiz.tasks("seed")
    (failed,) = played(quiz, ScriptPolicy([[render_call(ToolCall("answer", {"value": "wrong"}))]]), [task])
    assert failed.score == 0.0 and failed.calls
    forged = FORGERIES[name](replace(failed, score=1.0))
    found = again(quiz, [task], [forged])
    assert not found[0].holds
    kept = [one.score for one in with_scores([forged], found)]
    assert kept in ([], [0.0]) or (found[0].kind == WORLD and kept == [1.0])


def test_the_command_reads_a_run_and_writes_todays_scores(tmp_path: Path) -> None:
    from coevolve.core.io import write_jsonl
    from coevolve.core.trajectories import read_trajectories, write_trajectories
    from tests.cli import coevolve

    world = make("miniworld")
    tasks = world.tasks("seed")[:4]
    trajectories = played(world, ReferencePolicy(world), tasks)
    wrong = [replace(trajectories[0], score=0.25, checks={"goal": False}), *trajectories[1:]]
    write_trajectories(tmp_path / "t.parquet", wrong)
    write_jsonl(tmp_path / "tasks.jsonl", tasks)
    arguments = ["rescore", "t.parquet", "--environment", "miniworld"]
    done = coevolve(*arguments, "--out", "new.parquet", "--changes", "changes.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("t.parquet: miniworld-1 does not confirm 1 of 4 scores")
    assert "0.25 before, 1.00 now" in done.stdout and "the checker gives another score" in done.stdout
    assert [one.score for one in read_trajectories(tmp_path / "new.parquet")] == [1.0] * 4
    assert [json.loads(line)["kind"] for line in (tmp_path / "changes.jsonl").read_text().splitlines()][1:] == [
        SAME
    ] * 3
    assert coevolve(*arguments, "--fail", cwd=tmp_path).returncode == 1
    write_jsonl(tmp_path / "others.jsonl", world.tasks("seed")[5:6])
    wrong_file = coevolve(*arguments, "--tasks", "others.jsonl", cwd=tmp_path)
    assert wrong_file.returncode == 1 and "none of its tasks is in others.jsonl" in wrong_file.stderr
