from coevolve.core.records import Attempt
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.rollout import Episode
from coevolve.stages.train.groups import Group, attempts, rewards, teaches
from coevolve.stages.train.stage import PREFERENCE, summary


def group(*scores: float | None) -> Group:
    """A group with these rewards. None is an episode that the environment failed."""
    return [
        Episode(
            Trajectory(
                "x", "t", 0, 0, 0, 0, [], [], score or 0.0,
                StopReason.ENVIRONMENT_FAILED if score is None else StopReason.DONE,
            ),
            [],
            0.0,
        )
        for score in scores
    ]  # fmt: skip


def test_equal_rewards_teach_nothing() -> None:
    assert not teaches(group(1.0, 1.0))
    assert not teaches(group(0.0, None))
    assert teaches(group(0.0, 0.2))
    assert rewards(group(0.5, None)) == [0.5, None]


def test_attempts_are_grouped_by_task_and_step_without_failed_episodes() -> None:
    def episode(task: str, step: int, number: int, score: float | None) -> Trajectory:
        stop = StopReason.DONE if score is not None else StopReason.ENVIRONMENT_FAILED
        return Trajectory(f"{number}", task, 1, step, number, 0, [], [], score or 0.0, stop)

    played = [
        *(episode("a", 0, 0, score) for score in (1.0, 0.0)),
        *(episode("b", 0, 1, score) for score in (None, None)),
        *(episode("a", 0, 2, score) for score in (0.25, None)),  # a further group of the same task
        *(episode("a", 1, 0, score) for score in (0.5, 0.5)),
    ]
    failed = Attempt("b", 1, 0, 0.0, 0)
    assert attempts(played) == [Attempt("a", 1, 0, 1.25 / 3, 3, 1), failed, Attempt("a", 1, 1, 0.5, 2, 2)]


STEP = {"groups": 5.0, "groups_without_variance": 2.0, "tokens": 30.0, "success": 0.25}


def test_costs_add_up_and_figures_of_other_learners_are_absent() -> None:
    found = summary(1, [STEP, {**STEP, "success": 0.5}], 8)
    assert found.figures["training episodes"] == 80 and found.figures["share of groups that teach nothing"] == 0.4
    assert (found.figures["success at the first step"], found.figures["success at the last step"]) == (0.25, 0.5)
    assert not set(PREFERENCE.values()) & set(found.figures)


def test_preference_figures_are_those_of_the_last_step() -> None:
    told = {"margin": 0.5, "accuracy": 0.9, "chosen": -0.1, "rejected": -0.6}
    found = summary(0, [{**STEP, **dict.fromkeys(told, 0.0)}, {**STEP, **told}], 8)
    assert {name: found.figures[title] for name, title in PREFERENCE.items()} == told
