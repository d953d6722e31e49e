"""The summary of a training: figures of every learner, and figures of some."""

from coevolve.stages.train.stage import PREFERENCE, summary

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
