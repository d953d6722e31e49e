"""In every environment, hostile calls of an agent never raise its score and never take its episode out of the statistics."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall, misfit
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.environments.worker import WorkerEnvironment
from coevolve.policies.policy import Conversation, Reply
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from tests.hosted import HOSTED, installed
from tests.unit.core.test_task import nested
from tests.waiting import PATIENCE

LIMITS = Limits(200, 10**9, 10**6, PATIENCE)
ELSEWHERE = ("appworld", "appworld_functions", "openenv")  # which need more than their installation
NAMES = sorted({"miniworld", "sql", *HOSTED} - set(ELSEWHERE))
POISON = [  # text that a database or an interpreter could execute
    "UPDATE customers SET name = CAST(x'ff' AS TEXT)",
    "SELECT 9e999, -9e999, x'00ff', char(0)",
    "__import__('os').system('true')",
    "go\x00 nowhere",
    "../../etc/passwd",
]
HOSTILE = st.one_of(
    st.sampled_from(POISON),
    st.sampled_from([None, True, "", [], {}, -1, 0, 10**4000, -(10**4000), 1e308, float("nan"), float("inf")]),
    st.sampled_from(["\ud800", "x" * 99_000, "x" * 10**6, "٣", "²"]),
    st.sampled_from([2, 20, 63, 64, 990, 5000]).map(nested),
    st.lists(st.integers(), max_size=3),
    st.text(max_size=20),
)
UNKNOWN = ["no_such_tool", "__class__", "__init__", "", "\ud800", "x" * 10**5]


@pytest.fixture(scope="module", params=NAMES)
def world(request: pytest.FixtureRequest) -> Iterator[Environment]:
    if request.param in HOSTED and not (HOSTED[request.param].beside or installed(request.param)):
        pytest.skip(f"{request.param} is not installed; run `coevolve env install {request.param}`")
    try:
        made = make(request.param)
    except CoevolveError as error:
        pytest.skip(str(error))
    yield made
    if isinstance(made, WorkerEnvironment):
        made.close()


class Script:
    """Gives the scripted replies one by one, by the position in the conversation."""

    name = "script"

    def __init__(self, replies: Sequence[Sequence[list[ToolCall]]]) -> None:
        self._replies = replies
        self._left: dict[int, list[list[ToolCall]]] = {}

    def begin(self, conversations: Sequence[Conversation]) -> None:
        self._left = {one.key: list(self._replies[one.seed]) for one in conversations}

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        found = []
        for one in conversations:
            calls = self._left[one.key].pop(0) if self._left[one.key] else []
            found.append(Reply("said", calls))
        return found


def played(world: Environment, tasks: Sequence[Task], replies: Sequence[Sequence[list[ToolCall]]]) -> list[Any]:
    requests = [RolloutRequest(task, number) for number, task in enumerate(tasks)]
    return rollout(Script(replies), world, requests, LIMITS)


def partial(world: Environment, task: Task, left_out: int) -> list[list[ToolCall]]:
    """The reference's replies without the last calls. A message ends each turn."""
    turns = [list(turn) for turn in world.reference(task)]
    for _ in range(left_out):
        if full := next((turn for turn in reversed(turns) if turn), None):
            full.pop()
    return [reply for turn in turns for reply in ([[call] for call in turn] + [[]])]


@cache
def some(world: Environment) -> list[Task]:
    if world.name in HOSTED:  # whose worlds take long to make
        return list(world.tasks("seed")[:2])
    tasks = [task for split in ("seed", *world.panels) for task in world.tasks(split)[:400]]
    return tasks[:: max(len(tasks) // 6, 1)][:6]


@cache
def functions(world: Environment) -> list[dict[str, Any]]:
    return [schema["function"] for schema in world.tools()]


def hostile_calls(world: Environment, data: st.DataObject) -> list[ToolCall]:
    """Calls that no task asks for: unknown tools, and values that fit no schema."""
    found = []
    for _ in range(data.draw(st.integers(1, 8))):
        function = data.draw(st.sampled_from(functions(world)))
        name = data.draw(st.sampled_from([function["name"]] * 3 + UNKNOWN))
        keys = list(function["parameters"].get("properties", {})) + data.draw(
            st.sampled_from([[], ["x"], ["self"], [""]])
        )
        found.append(ToolCall(name, {key: data.draw(HOSTILE) for key in keys or ["x"]}))
    if data.draw(st.booleans()):  # or most of them would be no calls, and reach no session
        found = [call for call in found if not misfit(call.name, call.arguments)]
    return found


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_calls_leave_the_statistics_or_raise_a_score(world: Environment, data: st.DataObject) -> None:
    tasks = some(world)
    plain = [partial(world, task, number % 3) for number, task in enumerate(tasks)]
    spoilt = []
    for replies in plain:
        attack = hostile_calls(world, data)
        at = data.draw(st.integers(0, len(replies)))
        parts = [[call] for call in attack] if data.draw(st.booleans()) else [attack]
        spoilt.append([*replies[:at], *parts, *replies[at:]])
    before, after = played(world, tasks, plain), played(world, tasks, spoilt)
    assert len(list(scored(after))) == len(tasks)
    for one, other in zip(before, after, strict=True):
        assert other.trajectory.score <= one.trajectory.score, (one.trajectory, other.trajectory)
