"""What every environment promises, tried on tasks of each of its splits."""

import gc
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from coevolve.environments import Environment, Session, make, names
from coevolve.errors import CoevolveError
from coevolve.records import Task, ToolCall

ENVIRONMENTS = [name for name in names() if name != "bfcl" or find_spec("bfcl_eval")]


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(request: pytest.FixtureRequest) -> Environment:
    return make(request.param)


def some(environment: Environment) -> Iterator[Task]:
    for split in ("seed", *environment.panels):
        yield from environment.tasks(split)[:25]


def perform(environment: Environment, task: Task, reference: list[list[ToolCall]]) -> tuple[Session, list[str]]:
    session = environment.open()
    seen = [session.reset(task).content]
    for calls in reference:
        seen += [session.step(call).content for call in calls]
        seen.append(session.say("done").content)
    return session, seen


def test_it_is_an_environment(environment: Environment) -> None:
    assert isinstance(environment, Environment)
    assert isinstance(environment.open(), Session)
    assert environment.fingerprint
    names_of_tools = [schema["function"]["name"] for schema in environment.tools()]
    assert len(set(names_of_tools)) == len(names_of_tools)


def test_the_reference_succeeds_and_nothing_does_not(environment: Environment) -> None:
    for task in some(environment):
        assert perform(environment, task, environment.reference(task))[0].score().success
        assert not perform(environment, task, [[] for _ in task.turns])[0].score().success


def test_scoring_is_pure(environment: Environment) -> None:
    for task in some(environment):
        session, _ = perform(environment, task, environment.reference(task))
        before = session.digest()
        assert session.score() == session.score()
        assert session.digest() == before


def test_the_same_task_opens_to_the_same_bytes(environment: Environment) -> None:
    for task in some(environment):
        first, second = (perform(environment, task, environment.reference(task)) for _ in range(2))
        assert first[1] == second[1]
        assert first[0].digest() == second[0].digest()


def test_sessions_do_not_touch_each_other(environment: Environment) -> None:
    for task in some(environment):
        idle = environment.open()
        idle.reset(task)
        before = idle.digest()
        perform(environment, task, environment.reference(task))
        assert idle.digest() == before
        assert not idle.score().success


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("no_such_tool"),
        ToolCall("__class__"),
        ToolCall("__init__", {"x": 1}),
        ToolCall("", {}),
        ToolCall("../../etc/passwd", {"path": "/etc/passwd"}),
    ],
)
def test_an_unknown_tool_is_an_error_turn(environment: Environment, call: ToolCall) -> None:
    session = environment.open()
    session.reset(environment.tasks("seed")[0])
    before = session.digest()
    assert session.step(call).error
    assert session.digest() == before


@pytest.mark.parametrize("value", [None, [], {}, [[[[]]]], float("nan"), 10**400, "\ud800", "x" * 10**6, True])
def test_a_bad_argument_is_an_error_turn(environment: Environment, value: object) -> None:
    session = environment.open()
    turn = session.reset(environment.tasks("seed")[0])
    before = session.digest()
    for schema in turn.tools or []:
        name = schema["function"]["name"]
        assert session.step(ToolCall(name, {"no_such_argument": value})).error
        assert session.digest() == before


def test_tasks_are_unique_across_splits(environment: Environment) -> None:
    ids = [task.task_id for split in ("seed", *environment.panels) for task in environment.tasks(split)]
    assert len(set(ids)) == len(ids)


def test_open_and_close_leaks_nothing(environment: Environment) -> None:
    task = environment.tasks("seed")[0]

    def cycle() -> int:
        for _ in range(100):
            session = environment.open()
            session.reset(task)
            session.close()
        gc.collect()
        return len(gc.get_objects())

    cycle()
    first = cycle()
    assert cycle() <= first + 50


def test_an_unknown_environment_lists_the_known() -> None:
    with pytest.raises(CoevolveError, match="miniworld"):
        make("nowhere")
    assert "miniworld" in names()
