"""A panel's task in SQL is refused, whatever its statement is."""

from coevolve.core.task import Task, ToolCall
from coevolve.environments.registry import make
from tests.unit.stages.verify.test_panel_overlap import REWORDED, judged, outcome


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
