"""The SQL environment: what a statement may do, and how results are graded."""

import sqlite3
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Environment, Session
from coevolve.environments.worker_process import CallBroke
from coevolve.words.lexicon import unfitting
from coevolve_environments.sql.databases import DOMAINS, FAMILIES, build
from coevolve_environments.sql.sql_environment import MAX_SHOWN, SIZES, SQL, GuardedSQL, overlap

WORLD = SQL()
READ = next(task for task in WORLD.tasks("seed") if task.tags[0] == "customers_of_city")
WRITE = next(task for task in WORLD.tasks("seed") if task.world.get("writable"))
STATEMENT = WRITE.reference[0][-1].arguments["sql"]
TABLE = STATEMENT.split()[1]
COLUMN = {"orders": "status", "products": "name", "loans": "returned"}[TABLE]


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedSQL]:
    made = GuardedSQL()
    yield made
    made.close()


def started(task: Task, world: Environment = WORLD) -> Session:
    session = world.open()
    session.reset(task)
    return session


def query(session: Session, sql: str, tool: str = "query") -> tuple[bool, str]:
    turn = session.step(ToolCall(tool, {"sql": sql}))
    return turn.error, turn.content


def test_panels_are_balanced_and_cover_every_family() -> None:
    for split in ("validation", "hard", "shifted"):
        counts = Counter(task.tags[0] for task in WORLD.tasks(split))
        assert len(WORLD.tasks(split)) == SIZES[split]
        assert max(counts.values()) - min(counts.values()) <= 1
    assert {task.tags[0] for split in SIZES for task in WORLD.tasks(split)} == {family.name for family in FAMILIES}
    assert {task.world["domain"] for task in WORLD.tasks("shifted")}.isdisjoint(
        task.world["domain"] for task in WORLD.tasks("seed")
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_same_seed_builds_the_same_database(domain: str) -> None:
    one, same, other = (list(build(domain, seed).iterdump()) for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM customers",
        "DROP TABLE customers",
        "CREATE TEMP TABLE x AS SELECT 1",
        "ATTACH DATABASE '/tmp/x.db' AS x",
        "PRAGMA writable_schema = 1",
        "VACUUM INTO '/tmp/x.db'",
        "BEGIN",
        "SELECT 1; SELECT 2",
        "SELECT '\ud800'",
        "x" * 10_000,
    ],
)
def test_a_forbidden_statement_changes_nothing(sql: str) -> None:
    session = started(READ)
    before = session.digest()
    error, content = query(session, sql)
    assert error or content in ("done", "")
    assert session.digest() == before


NUMBERS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c{0}) SELECT {1} FROM c"
LONG = "(hex(zeroblob(4400)) || x)"  # another in every row, or SQLite would compute it once
HALF = "(hex(zeroblob(2200)) || x)"
DOUBLED = "SELECT x||x||x||x||x||x||x||x||x||x AS x FROM ({})"


def nested(pattern: str, inner: str, depth: int) -> str:
    for _ in range(depth):
        inner = pattern.format(inner)
    return inner


GREEDY = [
    NUMBERS.format("", "sum(x)"),  # steps
    NUMBERS.format(" LIMIT 100000", f"sum(instr({LONG}, {HALF} || 'x'))"),  # processor time
    NUMBERS.format(" LIMIT 500", f"x, {', '.join(['hex(zeroblob(4000))'] * 90)}"),  # bytes of a result
    NUMBERS.format(" LIMIT 100000", f"count(DISTINCT {LONG})"),  # memory
    nested(DOUBLED, "SELECT name AS x FROM customers", 12),  # 10**12 terms, if subqueries are flattened
    "SELECT 1 FROM " + ", ".join(f"orders o{n}" for n in range(60)),  # rows
    "SELECT " + "(" * 2000 + "1" + ")" * 2000,  # depth
    "SELECT zeroblob(2000000000)",  # bytes of a value
    "SELECT current_timestamp",
    "SELECT date('now'), datetime('2026-01-01', 'localtime')",
    "SELECT * FROM pragma_database_list",
    "SELECT load_extension('x')",
]


@pytest.mark.parametrize("number", range(len(GREEDY)))
def test_a_greedy_statement_is_refused_or_ends_its_own_episode(guarded: GuardedSQL, number: int) -> None:
    session, other = started(READ, guarded), started(READ, guarded)
    before = session.digest()
    try:
        _, content = query(session, GREEDY[number])
        assert len(content) <= MAX_SHOWN + 100
        assert number or content == "error: took more than 500000 steps"
        assert session.digest() == before
        assert query(session, "SELECT 1") == (False, "1\n1")
    except CallBroke:
        assert number in (1, 3, 4), "only processor time, memory and planning escape SQLite's limits"
    assert query(other, "SELECT 1") == (False, "1\n1")
    assert other.digest() == before
    session.close()
    other.close()


def test_date_functions_cannot_read_the_clock() -> None:
    session = started(READ)
    said = query(session, "SELECT date('2026-01-31', '+1 day'), strftime('%Y', '2026-05-05'), julianday('2026-01-01')")
    assert said[1].splitlines()[1] == "2026-02-01 | 2026 | 2461041.5"
    for clock in (
        "date('n' || 'ow')", "date()", "strftime('%s')", "strftime('%Y-%m-%d %f')", "date(x'6e6f77')", "date(CAST('now' AS BLOB))",
        "datetime('now' || char(0))", "time(' NOW ')", "unixepoch('subsec')", "julianday('2026-01-01', 'localtime')",
        "date('2026-01-01', 'utc')", "date('2026-01-01', CAST('localtime' AS BLOB))", "timediff('now', '2026-01-01')", "current_timestamp",
    ):  # fmt: skip
        assert query(session, f"SELECT {clock}")[0], clock


WORDS = [
    "now",
    "NOW",
    "localtime",
    "utc",
    "subsec",
    "2026-02-03",
    "2026-02-03 04:05",
    "04:05:06",
    "2461041.5",
    "+1 day",
]
VALUES = st.one_of(
    st.one_of(st.sampled_from(WORDS), st.text("now 0123456789-:T.Z+daysutc", max_size=12)).map("'{}'".format),
    st.one_of(st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6, allow_nan=False)).map(repr),
    st.binary(max_size=4).map(lambda value: f"x'{value.hex()}'"),
    st.just("NULL"),
)


@given(
    st.sampled_from(["date", "time", "datetime", "julianday", "unixepoch", "strftime"]), st.lists(VALUES, max_size=3)
)
@example("date", ["x'6e6f77'"])
@example("strftime", ["'%f'"])
def test_accepted_date_functions_do_not_depend_on_the_clock(name: str, values: list[str]) -> None:
    """SQLite is the oracle: in an index it refuses what reads the clock or its zone."""
    if not query(started(READ), f"SELECT {name}({', '.join(values)})")[0]:
        with sqlite3.connect(":memory:") as plain:
            names = "abc"[: len(values)]
            plain.execute(
                f"CREATE TABLE t AS SELECT 1{''.join(f', {value} AS {key}' for key, value in zip(names, values, strict=True))}"
            )
            plain.execute(f"CREATE INDEX i ON t ({name}({', '.join(names)}))")


POISON = ["CAST(x'ff' AS TEXT)", "x'ff00'", "9e999", "9e999 - 9e999", "char(55296, 1114111, 0)", "hex(zeroblob(4900))"]


@pytest.mark.parametrize("value", POISON)
def test_a_poisoned_database_can_be_judged(value: str) -> None:
    """A poisoned database is a wrong state: it has a digest and scores nothing."""
    session = started(WRITE)
    before = session.digest()
    error, content = query(session, f"UPDATE OR IGNORE {TABLE} SET {COLUMN} = {value}")
    assert not error or "NOT NULL" in content
    assert (session.digest() == before) == (error or value == "9e999 - 9e999")  # which is NULL, and skipped
    assert session.score().reward == 0
    assert not query(session, f"SELECT * FROM {TABLE}")[0]
    assert not query(session, f"DELETE FROM {TABLE}")[0]
    assert session.score().checks == {"state": False}


def test_text_and_blob_are_different_values() -> None:
    """A blob of a text's bytes is not the text: both look the same but compare as different."""
    session = started(WRITE)
    query(session, STATEMENT)
    right = session.digest()
    query(session, f"UPDATE {TABLE} SET {COLUMN} = CAST({COLUMN} AS BLOB)")
    assert session.digest() != right
    assert session.score().reward == 0


def test_error_leaves_the_database_unchanged() -> None:
    """Even if the statement asks to keep its changes so far."""
    for way in ("FAIL", "ROLLBACK", "ABORT"):
        session = started(WRITE)
        before = session.digest()
        assert query(session, f"UPDATE OR {way} {TABLE} SET id = CASE WHEN id < 9 THEN id - 100 ELSE 1 END")[0]
        assert session.digest() == before
        assert not query(session, f"SELECT min(id) FROM {TABLE} WHERE id > 0")[0]


def test_writable_task_is_judged_by_its_state() -> None:
    right = started(WRITE)
    assert not query(right, STATEMENT)[0]
    assert is_success(right.score().reward)
    too_much = started(WRITE)
    query(too_much, STATEMENT)
    query(too_much, f"DELETE FROM {TABLE} WHERE id = 1")
    assert not is_success(too_much.score().reward)
    assert query(started(WRITE), f"DROP TABLE {TABLE}")[0]


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


def test_order_counts_only_if_the_task_asks_for_it() -> None:
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


NAMES = "SELECT name, price FROM products"
BLANK = st.sampled_from([" ", "  ", "\n", "\t"])


@given(
    BLANK,
    BLANK,
    st.sampled_from(["ORDER{}BY price{}DESC, id", "order{}by{}price, id", "Order{}By{}name desc"]),
)
def test_order_counts_however_it_is_written(one: str, other: str, order: str) -> None:
    order = order.format(one, other)
    for statement, counts in (
        (f"{NAMES} {order}", True),
        (f"{NAMES} ORDER/**/BY price, name", True),
        (f"WITH t AS ({NAMES}) SELECT * FROM t AS products {order.replace('id', 'name')}", True),
        (f"{NAMES} UNION ALL {NAMES} ORDER{one}BY{other}2", True),
        (f"SELECT * FROM ({NAMES} {order})", False),
        (f"{NAMES} WHERE price IN (SELECT price FROM products {order})", False),
        (f"{NAMES} WHERE name <> '{order}'", False),
        (f"SELECT name, row_number() OVER ({order}) FROM products", False),
    ):
        task = Task.create(
            "sql", "seed", ["?"], {"seed": 1, "domain": "shop"}, [[ToolCall("submit", {"sql": statement})]]
        )
        rewards = []
        for way in ("ASC", "DESC"):
            session = started(task)
            assert query(session, f"SELECT * FROM ({statement}) ORDER BY 1 {way}, 2", "submit") == (False, "submitted")
            rewards.append(is_success(session.score().reward))
        assert all(rewards) != counts, statement


@pytest.mark.parametrize("order", ["", " ORDER BY price"])
def test_numbers_compare_by_value(order: str) -> None:
    """An integer, the same number as a float, and one that rounding makes of another sum are the same value."""
    right = f"SELECT id, round(price) AS price FROM products{order}"
    task = Task.create("sql", "seed", ["?"], {"seed": 1, "domain": "shop"}, [[ToolCall("submit", {"sql": right})]])
    for price, same in (
        ("CAST(round(price) AS INTEGER)", True),
        ("round(price) + 1e-9", True),
        ("round(price) || ''", False),
    ):
        session = started(task)
        query(session, f"SELECT id, {price} FROM products{order}", "submit")
        assert is_success(session.score().reward) == same, price


ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=6).map(tuple)


@given(ROWS, ROWS)
def test_overlap_is_a_similarity(one: tuple[tuple[int, str], ...], other: tuple[tuple[int, str], ...]) -> None:
    assert 0 <= overlap(one, other) == overlap(other, one) <= 1
    assert (overlap(one, other) == 1) == (sorted(one) == sorted(other))


def asks(words: str, sql: str, guess: bool = False, domain: str = "shop") -> str | None:
    """The reason why ``words`` do not fit a statement."""
    tool = "submit" if sql.startswith("SELECT") else "query"
    world = {"seed": 1, "domain": domain, "writable": True}
    meaning = SQL().meaning(Task.create("sql", "seed", [words], world, [[ToolCall(tool, {"sql": sql})]]))
    return meaning and unfitting(words, meaning, guess)


DEAREST = "SELECT name, price FROM products ORDER BY price DESC LIMIT 3"
SPENT = "SELECT avg(price) FROM products WHERE category = 'light'"
RAISED = "UPDATE products SET price = price + 2 WHERE category = 'light'"
OFTEN = "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.id HAVING count(*) > 3"


@pytest.mark.parametrize(
    ("words", "sql"),
    [
        ("Name and price of the three most expensive products", DEAREST),
        ("What is the mean price in the light category?", SPENT),
        ("Put up the price of all light products by 2.", RAISED),
        ("Who has placed more than three orders?", OFTEN),
    ],
)
def test_paraphrases_of_a_statement_fit_it(words: str, sql: str) -> None:
    assert asks(words, sql) == ""


@pytest.mark.parametrize(
    ("words", "sql", "reason"),
    [
        ("Name and price of the three cheapest products", DEAREST, "'cheapest'"),  # the order
        ("Price of the three most expensive products", DEAREST, "column name"),  # a column that is left out
        ("Name and price of the four most expensive products", DEAREST, "'four'"),  # a number
        ("What is the total price in the light category?", SPENT, "'total'"),  # what is done with it
        ("What is the mean price in the garden category?", SPENT, "'garden'"),  # a value
        ("What is the mean price?", SPENT, "value light"),  # a condition that is left out
        ("Lower the price of all light products by 2.", RAISED, "'Lower'"),
        ("Which products have more than three orders?", OFTEN, "'Which products'"),
    ],
)
def test_words_that_ask_for_something_else_are_found(words: str, sql: str, reason: str) -> None:
    assert reason in (asks(words, sql) or "")


def test_unknown_words_and_invalid_statements_give_no_verdict() -> None:
    assert asks("Our three most luxurious products", DEAREST) is None
    assert asks("Our three cheapest and most luxurious products", DEAREST) is None
    assert asks("Our three cheapest and most luxurious products", DEAREST, guess=True)
    assert asks("Name and price", "SELECT FROM WHERE (") is None
