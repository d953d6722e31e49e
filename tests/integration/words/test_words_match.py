"""The gates in SQL and BFCL: words that match, corrupted words, and tasks of a panel."""

import pytest

from coevolve.core.records import Candidate
from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make
from tests.unit.stages.verify.test_panel_overlap import REWORDED, judged, outcome
from tests.unit.words.test_corrupted_words import (  # noqa: F401
    sound_in,
    test_corrupted_instructions_are_refused_and_sound_ones_are_not,
    test_no_claim_lets_the_instruction_of_another_task_pass,
    test_unmentioned_change_fails_whatever_is_claimed,
)
from tests.unit.words.test_words_match import (  # noqa: F401
    made_in,
    reason,
    test_synthesized_instructions_pass,
)

KIEL = "SELECT name FROM customers WHERE city = 'Kiel'"


@pytest.fixture(scope="module")
def made() -> list[Candidate]:
    pytest.importorskip("bfcl_eval")
    return made_in("bfcl")


@pytest.mark.parametrize("environment", ["miniworld", "sql", "bfcl"])
def test_tasks_of_an_environment_pass(environment: str) -> None:
    world = make(environment)
    tasks = [task for split in ("seed", *world.panels) for task in world.tasks(split)[:25]]
    assert [found for task in tasks if (found := reason(Candidate("x", task, [])))] == []


def sql(text: str, statement: str, tool: str = "submit", writable: bool = False) -> Candidate:
    world = {"seed": 780288240, "domain": "shop", **({"writable": True} if writable else {})}
    return Candidate("x", Task.create("sql", "x", [text], world, [[ToolCall(tool, {"sql": statement})]]), [])


def test_environment_that_reads_instructions_decides_by_their_effect() -> None:
    assert not reason(sql("Which customers live in Kiel? Give their names.", KIEL))
    other = "SELECT c.name AS who FROM customers c WHERE c.city IN ('Kiel')"
    assert not reason(sql("Which customers live in Kiel? Give their names.", other))  # however it is spelled
    assert "Graz" in reason(sql("Which customers live in Graz? Give their names.", KIEL))
    assert reason(sql("How many orders are pending?", KIEL))
    assert reason(sql("Which customers live in Kiel? Give their names. How many orders are pending?", KIEL))
    assert not reason(sql("I need the names of our customers in Kiel.", KIEL))
    raised = "UPDATE products SET price = price + 5 WHERE category = 'light'"
    words = "Raise the price of every product of the category light by {}."
    assert not reason(sql(words.format(5), raised, "query", writable=True))
    assert reason(sql(words.format(2), raised, "query", writable=True))


def test_values_are_searched_inside_statements() -> None:
    assert not reason(sql("who is from Kiel?", KIEL), values=True)
    assert "'Graz'" in reason(sql("who is from Graz?", KIEL), values=True)
    assert "'value kiel'" in reason(sql("which customers live there?", KIEL), values=True)


def test_second_question_is_found_even_if_it_changes_nothing() -> None:
    world = make("sql")
    task = next(one for one in world.tasks("seed") if one.family == "return_book")
    other = task.turns[0].replace(task.turns[0].split()[0], "Zoe")  # no member of that name
    both = Task.create("sql", "seed", [f"{task.turns[0]} {other}"], task.world, task.reference)
    assert not reason(Candidate("x", task, []))
    assert "fewer" in reason(Candidate("x", both, []))


@pytest.fixture(scope="module")
def sound() -> list[Candidate]:
    return sound_in("sql")


def test_equivalent_statement_is_an_overlap() -> None:
    """Different calls may have the same effect: SQL that returns a panel's rows in a panel's database."""
    sql = make("sql")
    panels = {"test": sql.tasks("test")}
    task = next(task for task in panels["test"] if task.tags[0] == "customers_of_city")
    statement = task.reference[0][-1].arguments["sql"]
    other = [ToolCall("submit", {"sql": statement.replace("SELECT name", "SELECT DISTINCT name") + " AND 1 = 1"})]
    again = Task.create("sql", "synthesized", [REWORDED], {**task.world, "note": "x"}, [other])
    (found,) = judged(again, environment="sql", panels=panels)
    assert outcome(found) == "panel_overlap"
