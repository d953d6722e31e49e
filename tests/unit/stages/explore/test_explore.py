"""The explorers that need no endpoint."""

from collections import Counter
from functools import cache

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.records import Exploration, Generation, Signal
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn
from coevolve.environments.registry import make
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import carry_out, explore, plan
from coevolve.stages.explore.requests import requests, written
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.generate.spec import exploration_of
from tests.unit.environments import unruly
from tests.unit.environments.quiz import Quiz
from tests.unit.environments.tracker import Secret, Tracker
from tests.unit.stages.train.small import PARAMS

CONFIG = PARAMS.explore.model_copy(update={"explorations": 64, "tries": 6})


@pytest.fixture(scope="module")
def environment() -> Environment:
    return make("miniworld")


@cache
def trajectories(environment: Environment) -> list[Trajectory]:
    tasks = environment.tasks("seed")[:32]
    assignments = [RolloutRequest(task, seed) for task in tasks for seed in range(2)]
    episodes = rollout(ReferencePolicy(environment, 0.3), environment, assignments, Limits(40, 10**6, 64, 30.0))
    return [episode.trajectory for episode in episodes]


def explored(
    environment: Environment, signals: list[Signal], seed: int = 0, config: Explore = CONFIG
) -> list[Exploration]:
    tasks = environment.tasks("seed")[:32]
    wanted = requests(environment, tasks, trajectories(environment), signals, config, 0, seed)
    return explore(ScriptedExplorer(environment, learn(environment, tasks, []), config), wanted, lambda count: None)


def of_task(task_id: str, trajectory_ids: list[str]) -> Signal:
    return Signal("s", "boundary", 0, task_id, None, 0.5, {}, trajectory_ids)


def test_kept_calls_are_accepted_again(environment: Environment) -> None:
    found = explored(environment, [])
    assert len(found) > CONFIG.explorations / 2
    by_id = {task.task_id: task for task in environment.tasks("seed")}
    for exploration in found:
        session = environment.open()
        task = by_id[exploration.task_id or ""]
        session.reset(type(task)(task.task_id, task.environment, "x", task.turns, exploration.world, []))
        for call in exploration.calls:
            turn = session.step(call)  # type: ignore[arg-type]
            assert (turn.error, turn.content) == (False, call.observation)
        assert 0 < len(exploration.calls) <= CONFIG.max_calls


def test_same_seed_explores_the_same(environment: Environment) -> None:
    assert explored(environment, []) == explored(environment, [])
    assert explored(environment, []) != explored(environment, [], seed=1)


def test_signal_puts_its_tools_into_focus(environment: Environment) -> None:
    task = next(task for task in environment.tasks("seed")[:32] if len(task.reference[0]) > 1)
    shown = [one.trajectory_id for one in trajectories(environment) if one.task_id == task.task_id]
    focused = explored(environment, [of_task(task.task_id, shown)])
    tools = {call.name for turn in task.reference for call in turn}
    near = Counter(bool({call.name for call in one.calls} & tools) for one in focused)
    far = Counter(bool({call.name for call in one.calls} & tools) for one in explored(environment, []))
    assert near[True] / near.total() > far[True] / far.total()
    assert {one.signal_ids[0] for one in focused} == {"s"}
    assert {one.task_id for one in focused} == {task.task_id}


def test_synthesized_task_without_its_ending_call_keeps_the_known_ending(environment: Environment) -> None:
    tasks = environment.tasks("seed")[:32]
    *before, _ = tasks[0].reference[-1]
    reference = [*tasks[0].reference[:-1], before]
    broken = Task.create("miniworld", "seed", ["x"], tasks[0].world, reference, [], Provenance(0, [], "e"))
    known, unchanged = learn(environment, [*tasks, broken]), learn(environment, tasks)
    assert (known.terminal, known.answer) == (unchanged.terminal, unchanged.answer)
    assert known.terminal == "complete_task"


def test_coverage_prefers_seldom_used_tools_and_random_does_not() -> None:
    miniworld = make("miniworld")
    uses = learn(miniworld, miniworld.tasks("seed")[:32]).uses
    mean = {}
    for guidance in ("coverage", "random"):
        found = explored(miniworld, [], config=CONFIG.model_copy(update={"guidance": guidance, "explorations": 256}))
        goals = [goal for one in found for goal in one.goals]
        mean[guidance] = sum(uses[goal] for goal in goals) / len(goals)
    assert mean["coverage"] < 0.8 * mean["random"]


def test_request_states_the_task_the_failed_calls_and_the_missing_ones(environment: Environment) -> None:
    tasks = environment.tasks("seed")[:32]
    for failed in trajectories(environment):
        signal = of_task(failed.task_id, [failed.trajectory_id])
        task = next(task for task in tasks if task.task_id == failed.task_id)
        [request] = requests(
            environment, tasks, [failed], [signal], CONFIG.model_copy(update={"explorations": 1}), 0, 0
        )
        assert (request.signal, request.task, request.failed) == (signal, task, failed)
        assert set(request.focus) == {call.name for call in task.calls}
        left_out = set(request.focus) - {call.name for call in failed.calls}
        assert set(request.weakness) == (left_out or set(request.focus))


def test_constructing_environment_is_asked_for_tasks_of_weak_kinds() -> None:
    quiz = Quiz()
    tasks = quiz.tasks("seed")
    weak = next(task for task in tasks if "sum_8" in task.tags)
    explorer = ScriptedExplorer(quiz, learn(quiz, tasks), CONFIG)

    def kinds(signals: list[Signal]) -> Counter[str]:
        found = explore(explorer, requests(quiz, tasks, [], signals, CONFIG, 0, 0), lambda count: None)
        for one in found:
            made = quiz.construct(one.goals[0], one.world["seed"])
            assert one.world == made.world and [call.arguments for call in one.calls] == [made.calls[0].arguments]
        assert len({one.world["seed"] for one in found}) == CONFIG.explorations
        return Counter(one.goals[0] for one in found)

    assert min(kinds([])[goal] for goal in quiz.goals) > CONFIG.explorations / 6, "by chance all kinds are"
    assert kinds([of_task(weak.task_id, [])]) == {"sum_8": CONFIG.explorations}, "around a weak task its own kind is"
    spec = Generation("g", 0, weak.task_id, "", "", ["sum_2"], None)
    (found,) = explorer.explore(written(quiz, tasks, [spec], 0, 0))
    assert found.goals == ["sum_2"] and found.exploration_id == exploration_of(spec)


@pytest.mark.parametrize(
    ("environment", "said"),
    [(Tracker(), []), (Secret(), ["tools that no exploration reached: 2 of 5 (lost, unlock)"])],
)
def test_tools_that_no_exploration_reached_are_named(environment: Tracker, said: list[str]) -> None:
    config = PARAMS.explore.model_copy(update={"explorations": 200, "guidance": "coverage"})
    planned = plan(environment, environment.tasks("seed"), [], [], [], config, 0, 0)
    found, _, notes = carry_out(planned, config, PARAMS.policy, None, lambda count: None)  # type: ignore[arg-type]
    assert len(found) > 100 and notes == said


def outcome(habit: type[Environment]) -> tuple[list[Exploration], list[str]]:
    config = PARAMS.explore.model_copy(update={"explorations": 40, "guidance": "coverage"})
    environment = habit()
    planned = plan(environment, environment.tasks("seed"), [], [], [], config, 0, 0)
    found, interrupted, _ = carry_out(planned, config, PARAMS.policy, None, lambda count: None)  # type: ignore[arg-type]
    return found, interrupted


@pytest.mark.parametrize("error", [RuntimeError("the bulb is gone"), SystemExit("the bulb is gone")])
def test_an_exception_ends_one_exploration_and_is_counted(error: BaseException) -> None:
    def sometimes(session: unruly.SwitchSession, call: ToolCall) -> None:
        if session.task.split == "exploration" and call.arguments.get("name") == "cellar":
            raise error

    found, (note,) = outcome(unruly.with_habit("step", sometimes))
    assert 10 < len(found) < 40
    assert {call.arguments["name"] for one in found for call in one.calls} >= {"hall", "study"}
    count, _, rest = note.partition(" ")
    assert 0 < int(count) < 30 and rest == f"of 40 explorations broke: {type(error).__name__}: the bulb is gone"


def test_explorations_that_all_break_are_one_error() -> None:
    def later(session: unruly.SwitchSession, task: Task) -> None:
        if task.split == "exploration":
            raise RuntimeError("the bulb is gone")

    with pytest.raises(CoevolveError, match="40 of 40 explorations broke: RuntimeError: the bulb is gone; `coev"):
        outcome(unruly.with_habit("reset", later))


def test_references_that_all_break_are_one_error() -> None:
    with pytest.raises(
        CoevolveError, match="5 of 5 references broke: RuntimeError: the bulb is gone; `coevolve env check`"
    ):
        outcome(unruly.Broken)
