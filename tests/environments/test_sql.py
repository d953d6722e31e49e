"""The SQL environment: what a statement may do, and how results are graded."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.environments.sql.databases import DOMAINS, FAMILIES, build
from coevolve.environments.sql.sql_environment import SIZES, SQL, SQLSession, overlap

WORLD = SQL()
READ = next(task for task in WORLD.tasks("seed") if task.tags[0] == "customers_of_city")
WRITE = next(task for task in WORLD.tasks("seed") if task.world.get("writable"))


def started(task: Task) -> SQLSession:
    session = WORLD.open()
    session.reset(task)
    return session


def query(session: SQLSession, sql: str, tool: str = "query") -> tuple[bool, str]:
    turn = session.step(ToolCall(tool, {"sql": sql}))
    return turn.error, turn.content


def test_panels_are_balanced_and_every_family_is_somewhere() -> None:
    for split in ("validation", "hard", "shifted"):
        counts = Counter(task.tags[0] for task in WORLD.tasks(split))
        assert len(WORLD.tasks(split)) == SIZES[split]
        assert max(counts.values()) - min(counts.values()) <= 1
    assert {task.tags[0] for split in SIZES for task in WORLD.tasks(split)} == {family.name for family in FAMILIES}
    assert {task.world["domain"] for task in WORLD.tasks("shifted")}.isdisjoint(
        task.world["domain"] for task in WORLD.tasks("seed")
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_same_seed_builds_the_same_database(domain: str) -> None:
    one, same, other = (list(build(domain, seed).iterdump()) for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM customers",
        "UPDATE customers SET name = 'x'",
        "INSERT INTO customers VALUES (99, 'x', 'y', 'z')",
        "DROP TABLE customers",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "ATTACH DATABASE '/tmp/x.db' AS x",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO '/tmp/x.db'",
        "BEGIN",
        "SELECT load_extension('x')",
        "SELECT zeroblob(100000000)",
        "SELECT 1; SELECT 2",
        "",
        "not sql",
        "SELECT * FROM customers, customers, customers, customers",
        "SELECT '\ud800'",
        "x" * 10_000,
    ],
)
def test_what_is_not_allowed_is_an_error_and_changes_nothing(sql: str) -> None:
    session = started(READ)
    before = session.digest()
    error, content = query(session, sql)
    assert error or content in ("done", "")
    assert session.digest() == before


def test_a_statement_has_a_time_limit() -> None:
    session = started(READ)
    error, content = query(
        session, "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x) FROM c"
    )
    assert error
    assert "longer than 2 s" in content
    assert not query(session, "SELECT 1")[0]


def test_long_results_are_cut_for_the_eye_only() -> None:
    error, content = query(started(READ), "SELECT a.id FROM customers a, customers b")
    assert not error
    assert "rows in all" in content
    assert len(content.splitlines()) < 40


def test_a_writable_task_judges_the_state() -> None:
    statement = WRITE.reference[0][-1].arguments["sql"]
    table = statement.split()[1]
    right = started(WRITE)
    assert not query(right, statement)[0]
    assert is_success(right.score().reward)
    too_much = started(WRITE)
    query(too_much, statement)
    query(too_much, f"DELETE FROM {table} WHERE id = 1")
    assert not is_success(too_much.score().reward)
    assert query(started(WRITE), f"DROP TABLE {table}")[0]


def test_rewards_are_graded_by_overlap() -> None:
    statement = READ.reference[0][-1].arguments["sql"]
    scores = {}
    for name, sql in {
        "right": statement,
        "other words": statement.replace("SELECT name", "SELECT upper(substr(name, 1, 1)) || substr(name, 2)"),
        "too many": "SELECT name FROM customers",
        "nothing of it": "SELECT city FROM customers",
    }.items():
        session = started(READ)
        assert session.step(ToolCall("submit", {"sql": sql})).done
        scores[name] = session.score()
    assert is_success(scores["right"].reward)
    assert is_success(scores["other words"].reward)
    assert 0 < scores["too many"].reward < 0.5
    assert scores["nothing of it"].reward == 0


def test_order_counts_only_where_it_was_asked_for() -> None:
    for family, counts in (("dearest_products", True), ("customers_of_city", False)):
        task = next(
            task
            for task in WORLD.tasks("seed")
            if task.tags[0] == family
            and query(started(task), task.reference[0][-1].arguments["sql"])[1].count("\n") > 1
        )
        statement = task.reference[0][-1].arguments["sql"]
        session = started(task)
        query(session, f"SELECT * FROM ({statement}) ORDER BY 1 DESC", "submit")
        first = is_success(session.score().reward)
        session = started(task)
        query(session, f"SELECT * FROM ({statement}) ORDER BY 1 ASC", "submit")
        assert (first and is_success(session.score().reward)) != counts


ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=6).map(tuple)


@given(ROWS, ROWS)
def test_overlap_is_a_similarity(one: tuple[tuple[int, str], ...], other: tuple[tuple[int, str], ...]) -> None:
    assert 0 <= overlap(one, other) == overlap(other, one) <= 1
    assert (overlap(one, other) == 1) == (sorted(one) == sorted(other))
