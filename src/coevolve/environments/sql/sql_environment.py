"""Interactive SQL over SQLite, in the manner of InterCode-SQL (arXiv 2306.14898): schema on request, queries with
feedback from execution, and a graded reward from comparing result sets. Databases are made from seeds.

Read-only to the agent unless the task's world says ``writable``; then the state of the database is judged too.
"""

import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.seeding import derive_seed, generator
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session, check_owner
from coevolve.environments.sql.databases import DOMAINS, FAMILIES, Family, ask, build

VERSION = 1
SIZES = {"seed": 256, "validation": 128, "test": 128, "hard": 64, "shifted": 64}
SECONDS = 2.0  # of a statement
ROWS = 1000  # of a result
SHOWN = 30  # rows that an observation shows
MAX_STATEMENT = 5_000  # characters
MAX_VALUE = 1_000_000  # bytes of a value that a statement may make
PARTIAL = 0.49  # what a result that is not right can reach: its overlap with the right one
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION}
WRITING = READING | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}

Result = tuple[tuple[Any, ...], ...]


def _tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    fields = {key: {"type": "string", "description": text} for key, text in properties.items()}
    parameters = {"type": "object", "properties": fields, "required": list(fields)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    _tool("tables", "The tables and their columns"),
    _tool("query", "Run one SQL statement (SQLite) and see its result", sql="one statement"),
    _tool(
        "submit", "Hand in the statement whose result answers the question; ends the task", sql="one SELECT statement"
    ),
]


class SQL(Environment):
    """Questions to databases made from seeds. ``shifted`` asks of a domain that no other split holds."""

    name = "sql"
    fingerprint = f"sql-{VERSION}-sqlite-{sqlite3.sqlite_version}"
    panels = ("validation", "test", "hard", "shifted")

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _tasks(split)

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> "SQLSession":
        return SQLSession()

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        return {**task.world, "seed": derive_seed("sql fresh world", seed) % 2**31}


class SQLSession(Session):
    """One database, guarded."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._database: sqlite3.Connection | None = None
        self._submitted: Result | None = None
        self._over = False

    def reset(self, task: Task) -> Observation:
        check_owner(task, "sql")
        self.close()
        self._task, self._submitted, self._over = task, None, False
        self._database = _opened(task.world)
        return Observation("user", task.turns[0] if task.turns else "", tools=TOOLS)

    def step(self, call: ToolCall) -> Observation:
        if self._over or self._database is None:
            return Observation("tool", "the episode is over", error=True, done=True)
        if call.name == "tables" and not call.arguments:
            return Observation("tool", _described(self._database))
        statement = call.arguments.get("sql")
        if call.name not in ("query", "submit") or set(call.arguments) != {"sql"} or not isinstance(statement, str):
            return Observation("tool", "expected tables(), query(sql) or submit(sql)", error=True)
        try:
            columns, rows = _run(self._database, statement)
        except (sqlite3.Error, sqlite3.Warning, ValueError, UnicodeEncodeError) as error:
            return Observation("tool", f"error: {error}", error=True)
        if call.name == "submit":
            self._submitted, self._over = rows, True
            return Observation("tool", "submitted", done=True)
        return Observation("tool", _shown(columns, rows))

    def say(self, text: str) -> Observation:
        self._over = True
        return Observation("user", "", done=True)

    def score(self) -> Score:
        if self._task is None or self._database is None:
            raise CoevolveError("score() before reset(): no task was started")
        wanted, state = _truth(json.dumps(self._task.world, sort_keys=True), _statements(self._task))
        checks = {"state": _state(self._database) == state}
        if wanted is None:
            return Score(float(checks["state"]), checks)
        ordered = "order by" in _statements(self._task)[-1][1].lower()
        checks["submitted"] = self._submitted is not None
        checks["result"] = self._submitted is not None and _same(self._submitted, wanted, ordered)
        if all(checks.values()):
            return Score(1.0, checks)
        return Score(PARTIAL * overlap(self._submitted or (), wanted) * checks["state"], checks)

    def digest(self) -> str:
        return content_hash([_state(self._database) if self._database else "", repr(self._submitted)])

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._task = self._database = None


def _opened(world: dict[str, Any]) -> sqlite3.Connection:
    """The world's database, guarded: what a statement may do, how long, and how large its values get."""
    if world.get("domain") not in DOMAINS:
        raise CoevolveError(f"sql has no domain {world.get('domain')!r}; expected one of: {', '.join(DOMAINS)}")
    connection = build(world["domain"], int(world["seed"]))
    allowed = WRITING if world.get("writable") else READING

    def authorize(action: int, one: str | None, two: str | None, *_: Any) -> int:
        internal = action in WRITING - READING and str(one).startswith("sqlite_")
        loads = action == sqlite3.SQLITE_FUNCTION and two in ("load_extension", "randomblob", "random")
        return sqlite3.SQLITE_OK if action in allowed and not internal and not loads else sqlite3.SQLITE_DENY

    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.set_authorizer(authorize)
    return connection


def _run(database: sqlite3.Connection, statement: str) -> tuple[list[str], Result]:
    """Columns and rows of one statement; too long, too slow or too many rows is an error."""
    if len(statement) > MAX_STATEMENT:
        raise ValueError(f"the statement is longer than {MAX_STATEMENT} characters")
    deadline = time.monotonic() + SECONDS
    database.set_progress_handler(_late(deadline), 10_000)
    try:
        cursor = database.execute(statement)
        rows = tuple(cursor.fetchmany(ROWS + 1))
    except sqlite3.OperationalError as error:
        late = f"took longer than {SECONDS:g} s" if "interrupt" in str(error) else str(error)
        raise ValueError(late) from None
    finally:
        database.set_progress_handler(None, 0)
    if len(rows) > ROWS:
        raise ValueError(f"more than {ROWS} rows")
    return [column[0] for column in cursor.description or ()], rows


def _late(deadline: float) -> Callable[[], bool]:
    return lambda: time.monotonic() > deadline


def _described(database: sqlite3.Connection) -> str:
    tables = _tables(database)
    return "\n".join(f"{name}({', '.join(columns)})" for name, columns in tables.items())


@cache
def _columns(schema: str) -> dict[str, list[str]]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(schema)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")]
    found = {
        name: [f"{row[1]} {row[2].lower()}" for row in connection.execute(f"PRAGMA table_info({name})")]
        for name in names
    }
    connection.close()
    return found


def _tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    present = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return next(columns for one in DOMAINS.values() if set(columns := _columns(one.schema)) == present)


def _shown(columns: list[str], rows: Result) -> str:
    if not columns:
        return "done"
    lines = [
        " | ".join(columns),
        *(" | ".join("NULL" if one is None else str(one) for one in row) for row in rows[:SHOWN]),
    ]
    return "\n".join([*lines, *([f"... {len(rows)} rows in all"] if len(rows) > SHOWN else [])])


def _state(database: sqlite3.Connection) -> str:
    """Hash of all rows of all tables."""
    text = repr([database.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in _tables(database)])
    return hashlib.sha256(text.encode()).hexdigest()


def _statements(task: Task) -> tuple[tuple[str, str], ...]:
    calls = task.calls
    return tuple((call.name, str(call.arguments.get("sql", ""))) for call in calls if call.name != "tables") or (
        ("", ""),
    )


@lru_cache(maxsize=4096)
def _truth(world: str, statements: tuple[tuple[str, str], ...]) -> tuple[Result | None, str]:
    """What the reference submits (None: nothing), and the state that it leaves."""
    database = _opened(json.loads(world))
    submitted: Result | None = None
    for tool, statement in statements:
        try:
            _, rows = _run(database, statement)
        except (sqlite3.Error, sqlite3.Warning, ValueError):
            continue
        submitted = rows if tool == "submit" else submitted
    state = _state(database)
    database.close()
    return submitted, state


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(one, 6) if isinstance(one, float) else one for one in row)


def _same(one: Result, other: Result, ordered: bool) -> bool:
    mine, right = [_rounded(row) for row in one], [_rounded(row) for row in other]
    return mine == right if ordered else Counter(map(repr, mine)) == Counter(map(repr, right))


def overlap(one: Result, other: Result) -> float:
    """Intersection over union of two results as multisets of rows, as InterCode-SQL grades: 1 for equal rows."""
    mine, right = (Counter(repr(_rounded(row)) for row in result) for result in (one, other))
    union = (mine | right).total()
    return (mine & right).total() / union if union else 1.0


def _families(split: str) -> list[Family]:
    if split == "shifted":
        return [one for one in FAMILIES if one.domain == "clinic"]
    return [
        one
        for one in FAMILIES
        if one.domain != "clinic" and (split not in ("seed", "hard") or one.hard == (split == "hard"))
    ]


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    """Families in turn, so that a panel is balanced; a question whose answer is empty or nothing is asked again."""
    families, found, number = _families(split), dict[str, Task](), 0
    while len(found) < SIZES[split]:
        family = families[len(found) % len(families)]
        rng = generator("sql tasks", split, number)
        seed = derive_seed("sql world", split, number) % 2**31
        number += 1
        words, statement = ask(family, seed, rng)
        world: dict[str, Any] = {"seed": seed, "domain": family.domain}
        if family.writes:
            world["writable"] = True
        last = ToolCall("query" if family.writes else "submit", {"sql": statement})
        task = Task.create("sql", split, [words], world, [[ToolCall("tables"), last]], [family.name, family.domain])
        wanted, _ = _truth(json.dumps(world, sort_keys=True), _statements(task))
        if family.writes or any(any(value is not None for value in row) for row in wanted or ()):
            found[task.task_id] = task
    return tuple(found.values())
