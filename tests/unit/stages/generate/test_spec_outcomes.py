"""From generations to tasks in the real world: every generation has an outcome."""

import json
from dataclasses import asdict, replace

import pytest

from coevolve.core.attempts import attempt_of
from coevolve.core.records import Exploration, Generation
from coevolve.core.stage_summary import StageSummary
from coevolve.environments.knowledge import learn
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import written
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.generate.rewards import ACCEPTED, OFF, UNREALIZED, settled, updated, with_generator
from coevolve.stages.generate.spec import Spec, parse
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.judge import Judged, PassCount, accepted, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_rates import with_pass_rates
from tests.unit.stages.generate.small import OWN, TASKS, TOOLS
from tests.unit.stages.train.small import PARAMS, WORLD


def generation(number: int, text: str) -> Generation:
    found = parse(text, TOOLS)
    spec = found if isinstance(found, Spec) else None
    return Generation(
        f"g{number}", 1, TASKS[number % 16].task_id, "", text, list(spec.goals) if spec else None,
        spec.ask if spec else None, "" if spec else str(found),
    )  # fmt: skip


TEXTS = [str(Spec((one, other))) for one, other in zip(TOOLS.goals[:14], TOOLS.goals[14:28], strict=True)]
GENERATIONS = [
    *(generation(n, text) for n, text in enumerate(TEXTS)),
    generation(14, "no spec"),
    generation(15, str(Spec((TOOLS.goals[0],), "find_mail"))),
]


@pytest.fixture(scope="module")
def explorations() -> list[Exploration]:
    explorer = ScriptedExplorer(WORLD, learn(WORLD, TASKS), PARAMS.explore)
    return explore(explorer, written(WORLD, TASKS, GENERATIONS, 1, 0), lambda count: None)


@pytest.fixture(scope="module")
def judged(explorations: list[Exploration]) -> list[Judged]:
    candidates = synthesize(ScriptedSynthesizer(WORLD, TASKS, 0), explorations, 64, lambda count: None)
    found = verify(
        "miniworld", [json.dumps(asdict(one)) for one in candidates], Library(TASKS, {}, PARAMS.verify.near_duplicate)
    )
    return with_pass_rates(found, played(found))


def played(judged: list[Judged]) -> dict[str, PassCount]:
    """Eight episodes per accepted task. The number of solved episodes ranges from none to all."""
    return {task.task_id: PassCount(number % 9, 8, 8) for number, task in enumerate(accepted(judged))}


def test_exploration_makes_all_goals_of_a_spec_in_order(explorations: list[Exploration]) -> None:
    assert len(explorations) >= 8
    wanted = {one.exploration_id: one for one in written(WORLD, TASKS, GENERATIONS, 1, 0)}
    assert len(wanted) == 15, "what cannot be read is not tried"
    for one in explorations:
        goals = wanted[one.exploration_id].goals
        made = [call.name for call in one.calls]
        assert one.goals == list(goals) and set(goals) <= set(made)
        assert sorted(goals, key=made.index) == list(goals)


def test_every_generation_has_an_outcome(explorations: list[Exploration], judged: list[Judged]) -> None:
    found = settled(GENERATIONS, explorations, judged)
    assert [one.generation_id for one in found] == [one.generation_id for one in GENERATIONS]
    explored = {one.exploration_id for one in explorations}
    tasks = {task.task_id: (verdict, task) for verdict, task in judged if task}
    for before, one in zip(GENERATIONS, found, strict=True):
        assert one.outcome
        if before.outcome:
            assert one == before
        if one.outcome == ACCEPTED:
            assert one.task_id and one.episodes == 8
            verdict, task = tasks[one.task_id]
            assert verdict.accepted and verdict.pass_rate == one.successes / 8
            assert set(one.goals or ()) <= set(task.tools), "it is judged by the task that asks for all of it"
        else:
            assert one.task_id is None and one.episodes == 0
    assert sum(one.outcome == ACCEPTED for one in found) >= 6
    assert len([one for one in found if one.outcome == UNREALIZED]) == 15 - len(explored)
    assert settled(found, explorations, judged) == found, "what is settled stays so"


def test_failed_environment_counts_as_no_episode_of_a_generation(
    explorations: list[Exploration], judged: list[Judged]
) -> None:
    failed = {task_id: PassCount(number % 2, number % 2, 8) for number, task_id in enumerate(played(judged))}
    settled_generations = settled(GENERATIONS, explorations, with_pass_rates(judged, failed))
    counts = {(one.successes, one.episodes) for one in settled_generations if one.outcome == ACCEPTED}
    assert counts == {(0, 0), (1, 1)}


def test_training_results_replace_the_measured_pass_rate() -> None:
    one = replace(GENERATIONS[0], task_id="t", successes=8, episodes=8, outcome=ACCEPTED)
    visits = [
        attempt_of("t", 2, 0, [1.0, 0.0]),
        attempt_of("t", 2, 5, [0.0, 0.0, 0.0, 1.0]),
        attempt_of("u", 2, 6, [1.0]),
    ]
    (found,) = updated([one], visits)
    assert (found.successes, found.episodes) == (1, 4)
    assert updated([one], []) == [one]


def test_figures_say_how_far_pass_rates_are_from_alpha_and_count_outcomes() -> None:
    half = [
        replace(generation(n, TEXTS[0]), outcome=ACCEPTED, task_id=str(n), successes=4, episodes=8) for n in range(8)
    ]
    figures = with_generator(StageSummary("verify", 1, {}), [*half, generation(9, "no")], OWN).figures
    assert figures[OFF] == 0.0 and figures["realized specs"] == 8 / 9
    assert figures["share solved about half the time"] == 1.0 and figures["generator reward"] == 1.0
    assert figures["specs: accepted"] == 8 and figures["specs: unreadable"] == 1
    nothing = StageSummary("verify", 1, {"accepted": 3})
    assert with_generator(nothing, [], OWN) is nothing
