"""The contract of every environment, as checks that tests and ``coevolve env doctor`` run.

A check takes an environment and the number of tasks to try in each split. A violation is an AssertionError whose message
names the task and the violation.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import repeat

from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Environment, Phrasebook, Session

Check = Callable[[Environment, int], None]
STRANGE_NAMES = ("no_such_tool", "__class__", "__init__", "", "../../etc/passwd")
DEEP: list[object] = reduce(lambda inner, _: [inner], range(990), [])  # json.dumps rejects it on some Python versions
STRANGE_VALUES: tuple[object, ...] = (None, [], {}, [[[[]]]], DEEP, float("nan"), 10**400, "\ud800", "x" * 10**6, True)


def _some(environment: Environment, count: int) -> Iterator[Task]:
    for split in ("seed", *environment.panels):
        yield from environment.tasks(split)[:count]


def _perform(environment: Environment, task: Task, reference: list[list[ToolCall]]) -> tuple[Session, list[str]]:
    """A session after the calls of ``reference``, made turn by turn, with all its answers."""
    session = environment.open()
    seen = [session.reset(task).content]
    for calls in reference:
        seen += [session.step(call).content for call in calls]
        seen.append(session.say("done").content)
    return session, seen


def is_an_environment(environment: Environment, count: int) -> None:
    assert isinstance(environment, Environment), "it must inherit coevolve.environments.environment.Environment"
    session = environment.open()
    assert isinstance(session, Session), "open() must return a coevolve.environments.environment.Session"
    session.close()
    for key, fits, wanted in _attributes(environment):
        assert fits, f"{key} is not {wanted}"
    names = [schema["function"]["name"] for schema in environment.tools()]
    doubled = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    assert not doubled, f"tools() lists a name twice: {', '.join(doubled[:5])}"


def _attributes(environment: Environment) -> Iterator[tuple[str, bool, str]]:
    """For each attribute: its name, whether its value is valid, and the expected value in words."""
    for key, text in (("name", environment.name), ("fingerprint", environment.fingerprint)):
        yield key, isinstance(text, str) and bool(text), "a text"
    for key, names in (
        ("panels", environment.panels),
        ("more_splits", environment.more_splits),
        ("goals", environment.goals),
    ):
        yield key, isinstance(names, tuple) and all(isinstance(one, str) for one in names), "a tuple of names"
    capacity, known = environment.capacity, environment.quarantine
    yield "capacity", capacity is None or (isinstance(capacity, int) and capacity > 0), "a positive number or None"
    yield "quarantine", isinstance(known, Mapping) and all(map(isinstance, known.values(), repeat(str))), "id → reason"
    yield "phrasebook", isinstance(environment.phrasebook, Phrasebook), "a Phrasebook"


def answers_about_tasks_are_usable(environment: Environment, count: int) -> None:
    for task in _some(environment, count):
        for ask in (environment.category, environment.scenario):
            said = ask(task)
            assert isinstance(said, str) and said, (
                f"task {task.task_id}: {ask.__name__}() returns {said!r}, expected a text"
            )
        world = environment.fresh_world(task, 0)
        assert isinstance(world, dict), f"task {task.task_id}: fresh_world() returns {world!r}, expected a dict"
        assert world == environment.fresh_world(task, 0), (
            f"task {task.task_id}: fresh_world() returns different worlds for the same seed"
        )
        session = environment.open()
        session.reset(replace(task, world=world))
        session.close()


def tasks_are_unique(environment: Environment, count: int) -> None:
    ids = [task.task_id for split in ("seed", *environment.panels) for task in environment.tasks(split)]
    assert ids, "the environment has no tasks"
    assert len(set(ids)) == len(ids), "a task_id occurs twice, in the same split or in two splits"


def reference_succeeds(environment: Environment, count: int) -> None:
    for task in _some(environment, count):
        session, _ = _perform(environment, task, environment.reference(task))
        score = session.score()
        session.close()
        assert is_success(score.reward), (
            f"task {task.task_id}: the reference scores {score.reward}, checks {score.checks}"
        )


def nothing_fails(environment: Environment, count: int) -> None:
    for task in _some(environment, count):
        session, _ = _perform(environment, task, [[] for _ in task.turns])
        success = is_success(session.score().reward)
        session.close()
        assert not success, f"task {task.task_id}: doing nothing succeeds"


def scoring_is_pure(environment: Environment, count: int) -> None:
    for task in _some(environment, count):
        session, _ = _perform(environment, task, environment.reference(task))
        before = session.digest()
        assert session.score() == session.score(), f"task {task.task_id}: a second score() returns another result"
        assert session.digest() == before, f"task {task.task_id}: score() changed the world"
        session.close()


def same_task_same_bytes(environment: Environment, count: int) -> None:
    for task in _some(environment, count):
        first, second = (_perform(environment, task, environment.reference(task)) for _ in range(2))
        assert first[1] == second[1], f"task {task.task_id}: the same calls get different answers"
        assert first[0].digest() == second[0].digest(), f"task {task.task_id}: the same calls end in different worlds"
        first[0].close()
        second[0].close()


def sessions_are_apart(environment: Environment, count: int) -> None:
    for task in _some(environment, count):
        idle = environment.open()
        idle.reset(task)
        before = idle.digest()
        _perform(environment, task, environment.reference(task))[0].close()
        assert idle.digest() == before, f"task {task.task_id}: one session changed another's world"
        assert not is_success(idle.score().reward), f"task {task.task_id}: one session solved another's task"
        idle.close()


def unknown_tool_is_an_error_turn(environment: Environment, count: int) -> None:
    for name in STRANGE_NAMES:
        session = environment.open()
        session.reset(environment.tasks("seed")[0])
        before = session.digest()
        assert session.step(ToolCall(name, {})).error, f"tool {name!r} is not refused"
        assert session.digest() == before, f"tool {name!r} changed the world"
        session.close()


def bad_argument_is_an_error_turn(environment: Environment, count: int) -> None:
    for value in STRANGE_VALUES:
        session = environment.open()
        turn = session.reset(environment.tasks("seed")[0])
        before = session.digest()
        for schema in turn.tools or []:
            name = schema["function"]["name"]
            said = name if isinstance(value, int) or value is DEEP else f"{name}(no_such_argument={str(value)[:20]})"
            assert session.step(ToolCall(name, {"no_such_argument": value})).error, f"{said} is not refused"
            assert session.digest() == before, f"{said} changed the world"
        session.close()


def what_is_constructed_is_a_task(environment: Environment, count: int) -> None:
    session = environment.open()
    for goal in environment.goals[:count] + environment.goals[-count:]:
        task = environment.construct(goal, count)
        assert task == environment.construct(goal, count), (
            f"{goal}: construct() returns different tasks for the same seed"
        )
        assert goal in task.tags, f"{goal}: construct() returns a task without this tag"
        said = session.reset(replace(task, turns=[""])).content
        assert said == task.turns[0], f"{goal}: its world says {said[:80]!r}, its instruction is {task.turns[0][:80]!r}"
        solved, _ = _perform(environment, task, task.reference)
        assert is_success(solved.score().reward), f"{goal}: the reference of a constructed task fails"
        solved.close()
    session.close()


def nothing_leaks(environment: Environment, count: int) -> None:
    task = environment.tasks("seed")[0]

    def cycle() -> int:
        for _ in range(4 * count):
            session = environment.open()
            session.reset(task)
            session.close()
        gc.collect()
        return len(gc.get_objects())

    cycle()
    first = cycle()
    grown = cycle() - first
    assert grown <= 50, f"{4 * count} sessions opened and closed left {grown} objects behind"


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        is_an_environment,
        answers_about_tasks_are_usable,
        tasks_are_unique,
        reference_succeeds,
        nothing_fails,
        scoring_is_pure,
        same_task_same_bytes,
        sessions_are_apart,
        unknown_tool_is_an_error_turn,
        bad_argument_is_an_error_turn,
        what_is_constructed_is_a_task,
        nothing_leaks,
    )
}
