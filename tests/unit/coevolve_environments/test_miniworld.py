import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve_environments.miniworld.expert import solve
from coevolve_environments.miniworld.miniworld_environment import FAMILIES, HEAD, LOOKALIKES, MUTATING, Miniworld
from coevolve_environments.miniworld.session import MiniworldSession

WORLD = Miniworld()
# Tasks are frozen: a change here makes every reported number incomparable with earlier ones.
FROZEN = {
    "seed": "d92d3a180449e23e",
    "validation": "a1a3b75ecc01a97d",
    "test": "8b85ed20e444a86a",
    "hard": "597b08d0df511816",
    "shifted": "b5e1298704009ccd",
}


def played(task: Task, calls: list[ToolCall]) -> MiniworldSession:
    session = WORLD.open()
    session.reset(task)
    for call in calls:
        session.step(call)
    return session


def test_broad_seeds_cover_all_families_evenly_and_no_panel() -> None:
    tasks = WORLD.tasks("broad")[:56]
    asked = {name for task in tasks for name in task.family.split("+")}
    assert asked == set(FAMILIES) and set(HEAD) == {n for one in WORLD.tasks("seed") for n in one.family.split("+")}
    panels = {task.task_id for panel in WORLD.panels for task in WORLD.tasks(panel)}
    assert not panels & {task.task_id for task in WORLD.tasks("broad")}


def test_generated_tasks_are_solvable_and_every_missing_or_mistaken_call_costs_the_reward() -> None:
    """The expert solves all tasks, doing nothing solves none, and every corrupted call is detected."""
    undetected = []
    for index, task in enumerate(WORLD.generate("property", 300, seed=7, every=True)):
        calls = task.reference[0]
        assert played(task, calls).score().reward == 1.0
        assert not is_success(played(task, []).score().reward)
        assert solve(WORLD.open(), task, task.world["intent"])[-1].ok
        counted = [i for i, call in enumerate(calls) if call.name in MUTATING or call.arguments.get("answer")]
        position = counted[index % len(counted)]
        wrong = [*calls[:position], *calls[position + 1 :]]
        if is_success(played(task, wrong).score().reward):
            undetected.append((task.task_id, "dropped", calls[position]))
        for other in LOOKALIKES.get(calls[position].name, []):
            wrong = [*calls]
            wrong[position] = ToolCall(other, calls[position].arguments)
            if is_success(played(task, wrong).score().reward):
                undetected.append((task.task_id, other, calls[position]))
    assert undetected == []


@pytest.mark.parametrize("split", FROZEN)
def test_tasks_are_frozen(split: str) -> None:
    assert {"seed", *WORLD.panels} == set(FROZEN)
    assert content_hash([task.task_id for task in WORLD.tasks(split)]) == FROZEN[split]


@pytest.mark.parametrize("panel", ["validation", "test", "shifted"])
def test_panels_cover_every_family(panel: str) -> None:
    seen = {family for task in WORLD.tasks(panel) for family in task.tags[1:]}
    assert seen == set(FAMILIES)


def test_seed_split_is_narrow_and_disjoint_from_the_panels() -> None:
    seed = WORLD.tasks("seed")
    assert {family for task in seed for family in task.tags[1:]} <= set(HEAD)
    worlds = {task.world["seed"] for task in seed}
    for panel in WORLD.panels:
        assert not worlds & {task.world["seed"] for task in WORLD.tasks(panel)}


def test_error_reveals_a_renamed_tool_and_argument() -> None:
    task = next(task for task in WORLD.tasks("shifted") if "transfer_money" in {c.name for c in task.reference[0]})
    session = played(task, [])
    turn = session.step(ToolCall("pay", {"contact_id": "c00", "amount": 3}))
    assert turn.error
    assert "transfer_money" in turn.content
    turn = session.step(ToolCall("transfer_money", {"contact_id": "c00", "amount": 3}))
    assert "person_id" in turn.content


def test_precondition_errors_say_what_to_do() -> None:
    seen = set()
    for seed in range(30):
        session = WORLD.open()
        session.reset(Task.create("miniworld", "x", ["x"], {"seed": seed}, [[]]))
        seen.add(session.step(ToolCall("balance")).content.split(" ")[-2:][0])
        for file in session._state["files"]:
            seen |= {
                w for w in ("restore", "unlock") if w in session.step(ToolCall("trash_file", {"file_id": file})).content
            }
        session.step(ToolCall("unlock", {"app": "wallet"}))
        contact = next(iter(session._state["contacts"]))
        seen |= {
            w for w in ("top_up",) if w in session.step(ToolCall("pay", {"contact_id": contact, "amount": 100})).content
        }
    assert {"restore", "unlock", "top_up"} <= seen


def test_collateral_changes_fail() -> None:
    task = WORLD.tasks("seed")[0]
    calls = task.reference[0]
    session = played(task, [ToolCall("add_event", {"title": "x", "day": "monday"}), *calls])
    assert session.score().checks == {"goal": True, "collateral": False, "completed": True, "answer": True}
    assert session.score().reward < 0.5


def test_unknown_splits_and_invalid_worlds_are_errors() -> None:
    with pytest.raises(CoevolveError, match="no split 'train'"):
        WORLD.tasks("train")
    with pytest.raises(CoevolveError, match="integer `seed`"):
        WORLD.open().reset(Task.create("miniworld", "x", ["x"], {"seed": "1"}, [[]]))
    with pytest.raises(CoevolveError, match="belongs to environment 'bfcl'"):
        WORLD.open().reset(Task.create("bfcl", "x", ["x"], {"seed": 1}, [[]]))
