"""Episodes that follow a list of requests end when the session does."""

from coevolve.core.task import Task
from coevolve.environments.registry import make
from coevolve.trainers.replay import call, refusal, score


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
