"""Episodes that follow a list of requests end when the session does."""

from coevolve.core.task import Task
from coevolve.environments.registry import make
from coevolve.trainers.replay import Replay, call, refusal, say, score


def test_no_call_counts_after_the_end() -> None:
    world = make("miniworld")
    for task in world.tasks("seed")[:20]:
        assert refusal(world, task) == ""
        (words,), (calls,) = task.turns, task.reference
        later = Task.create("miniworld", "x", ["hello", words], task.world, [[], calls])
        assert refusal(world, later).startswith("its reference scores")
        assert (
            score(
                world, task, [*(call(one.name, one.arguments) for one in calls), call("lock", {"app": "mail"})]
            ).reward
            == 1.0
        )


def test_a_request_that_no_agent_can_make_is_refused_and_changes_nothing() -> None:
    world = make("miniworld")
    task = world.tasks("seed")[0]
    episode = Replay(world, task)
    for request in (call(task.calls[0].name, {"x": float("nan")}), say("half of a character: \ud800")):
        assert episode.answer(request).error
    assert not [one for one in task.calls if episode.answer(call(one.name, one.arguments)).error]
    assert episode.score().reward == 1.0
