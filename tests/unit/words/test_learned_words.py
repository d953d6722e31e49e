"""New tasks of an environment without a phrasebook, from exploration to the gates: words and values are those of its users."""

from collections import Counter

import pytest

from coevolve.core.records import Candidate
from coevolve.core.task import Task, ToolCall
from coevolve.environments.knowledge import learn
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize, wording
from coevolve.stages.verify.gates import environment_gates
from coevolve.words.phrase_generator import spaced
from tests.unit.environments.helpdesk import REASONS, SUBJECTS, Helpdesk
from tests.unit.stages.train.small import PARAMS

DESK = Helpdesk()
TASKS = DESK.tasks("seed")
CONFIG = PARAMS.explore.model_copy(update={"explorations": 240, "tries": 6})


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    wanted = requests(DESK, TASKS, [], [], CONFIG, 0, 0)
    found = explore(ScriptedExplorer(DESK, learn(DESK, TASKS), CONFIG), wanted, lambda count: None)
    candidates = synthesize(ScriptedSynthesizer(DESK, TASKS, 0), found, 150, lambda count: None)
    for one in candidates:
        failed = [gate for gate in environment_gates(DESK, one, "values") if gate.passed is False]
        assert not failed, (one.task.turns, failed)
    return [one.task for one in candidates]


def test_no_instruction_names_a_tool_or_an_argument_by_its_identifier(tasks: list[Task]) -> None:
    functions = [schema["function"] for schema in DESK.tools()]
    names = {name for one in functions for name in (one["name"], *one["parameters"]["properties"]) if "_" in name}
    for task in tasks:
        assert not [name for name in names if name in task.turns[0] or spaced(name) in task.turns[0]], task.turns


def test_values_come_from_where_users_take_them(tasks: list[Task]) -> None:
    notes = [call.arguments["text"] for task in tasks for call in task.calls if call.name == "add_note"]
    assert notes
    assert set(notes) <= set(REASONS)
    for task in tasks:
        customers = {one["name"] for one in task.world["customers"]}
        for call in task.calls:
            assert call.name != "search_customers" or call.arguments["name"] in customers
            assert call.name != "search_tickets" or call.arguments["text"] in SUBJECTS


def test_agent_is_looked_up_and_described_as_users_do(tasks: list[Task]) -> None:
    assigned = [task for task in tasks if any(call.name == "assign" for call in task.calls)]
    assert assigned
    for task in assigned:
        assert "list_agents" in task.tools
        assert "team" in task.turns[0]


def test_tasks_begin_with_several_tools_and_no_lookup_is_idle(tasks: list[Task]) -> None:
    first = Counter(task.calls[0].name for task in tasks)
    assert len(first) >= 4
    assert max(first.values()) < 0.75 * len(tasks)
    assert all(task.calls[-1].name in ("get_ticket", *learn(DESK, TASKS).changing, "add_note") for task in tasks)


def test_lookup_at_the_end_that_nothing_needs_is_refused() -> None:
    task = next(one for one in TASKS if one.tools[-1] == "escalate")
    idle = Task.create(task.environment, "seed", task.turns, task.world, [[*task.calls, ToolCall("list_agents", {})]])
    gates = list(environment_gates(DESK, Candidate("c", idle, []), "none"))
    assert [gate.reason for gate in gates if gate.passed is False] == [
        "passes without call 1 (list_agents), whose result is not used"
    ]


def test_summary_says_how_many_tasks_taught_words() -> None:
    assert wording(DESK, Synthesize()) == [
        "60 of 60 training tasks of helpdesk taught the words of new tasks; `coevolve env phrases helpdesk` prints them"
    ]
    assert wording(DESK, Synthesize(synthesizer="endpoint")) == []
