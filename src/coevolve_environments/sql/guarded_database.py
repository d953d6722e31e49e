"""A database that untrusted SQL may use: with limits on the actions, the steps and the values of a statement.

SQLite's step count misses some costs of a statement: functions on long values are free, and so is the planning of
nested queries, which may take exponential time and memory. The limits of the worker that holds the database cover these costs.
"""

import hashlib
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from coevolve_environments.sql.databases import build

STEPS = 500_000  # most steps of SQLite's machine per statement: equal on all machines, and usually reached first
EVERY = 1_000  # steps between two checks of the count
ROWS = 1_000  # most rows of a result
MAX_RESULT = 1_000_000  # most bytes of all values of a result
MAX_VALUE = 10_000  # most bytes of a value, or of a row in a sort
MAX_STATEMENT = 5_000  # most characters of a statement
PAGES = 1_000  # most pages of 4 kB in a database

LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION}
WRITING = READING | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
# functions whose results depend on chance, on the clock, or on earlier statements of the connection
REFUSED = {"load_extension", "random", "randomblob", "current_date", "current_time", "current_timestamp", "changes",
           "total_changes", "last_insert_rowid", "timediff"}  # fmt: skip
CALENDAR = ("date", "time", "datetime", "julianday", "strftime", "unixepoch")
# the arguments of these functions that need neither the clock nor its zone: a moment, then its changes
CLOCK_TIME = r"\d\d:\d\d(:\d\d(\.\d+)?)?"
MOMENT = re.compile(
    rf"[+-]?\d+(\.\d*)?|(\d{{4}}-\d\d-\d\d([ T]+{CLOCK_TIME})?|{CLOCK_TIME}) *(Z|[+-]\d\d:\d\d)?", re.IGNORECASE
)
CHANGE = re.compile(
    rf"[+-]?\d+(\.\d+)? *(second|minute|hour|day|month|year)s?|[+-]?{CLOCK_TIME}|[+-]\d{{4}}-\d\d-\d\d( {CLOCK_TIME})?"
    r"|start of (month|year|day)|weekday *\d|unixepoch|julianday|auto|ceiling|floor",
    re.IGNORECASE,
)

WORDS = {
    "interrupted": f"took more than {STEPS} steps",
    "user-defined function raised exception": "date functions take a date, a time or a number, and changes such as '+1 day'; "
    "they cannot read the clock or its zone",
}

World = tuple[str, int, bool]  # domain, seed, and whether statements may write
Result = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class StatementOutcome:
    """The outcome of a statement. ``error`` is the reason of a refusal."""

    columns: list[str]
    rows: Result
    error: str = ""


class Database:
    def __init__(self, world: World) -> None:
        domain, seed, self._writable = world
        self._ours = True  # whether the current statement is one of this module
        self._connection = build(domain, seed)
        self._tables = [
            row[0] for row in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for setting in (f"max_page_count = {PAGES}", "temp_store = 2"):
            self._connection.execute(f"PRAGMA {setting}")
        for limit, most in LIMITS.items():
            self._connection.setlimit(limit, most)
        self._connection.set_authorizer(self._authorize)
        plain = sqlite3.connect(":memory:", isolation_level=None)
        for name in CALENDAR:
            self._connection.create_function(name, -1, _calendar(plain, name), deterministic=True)

    def _authorize(self, action: int, one: str | None, two: str | None, *_: Any) -> int:
        if self._ours:
            return sqlite3.SQLITE_OK
        allowed = action in (WRITING if self._writable else READING)
        internal = action in WRITING - READING and str(one).startswith("sqlite_")
        refused = action == sqlite3.SQLITE_FUNCTION and str(two).lower() in REFUSED
        return sqlite3.SQLITE_OK if allowed and not internal and not refused else sqlite3.SQLITE_DENY

    def run(self, statement: str) -> StatementOutcome:
        """Run one statement. An error leaves the database unchanged."""
        try:
            if len(statement) > MAX_STATEMENT:
                raise ValueError(f"the statement is longer than {MAX_STATEMENT} characters")
            self._connection.execute("BEGIN")
            columns, rows = self._fetched(statement)
            self._connection.execute("COMMIT")
        except Exception as error:  # every error is the statement's fault
            if self._connection.in_transaction:  # some errors end the transaction
                self._connection.execute("ROLLBACK")
            if isinstance(error, MemoryError):
                return StatementOutcome([], (), error="needs more memory than a statement may have")
            return StatementOutcome([], (), error=str(error) or type(error).__name__)
        return StatementOutcome(columns, tuple(rows))

    def _fetched(self, statement: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        calls = count(1)
        self._connection.text_factory = lambda raw: raw.decode(errors="backslashreplace")
        self._connection.set_progress_handler(lambda: next(calls) * EVERY > STEPS, EVERY)
        cursor = self._connection.cursor()
        rows, size = [], 0
        try:
            self._ours = False
            cursor.execute(statement)
            for row in cursor:
                rows.append(row)
                size += sum(len(one) if isinstance(one, str | bytes) else 8 for one in row)
                if len(rows) > ROWS:
                    raise ValueError(f"more than {ROWS} rows")
                if size > MAX_RESULT:
                    raise ValueError(f"a result of more than {MAX_RESULT} bytes")
            return [column[0] for column in cursor.description or ()], rows
        except sqlite3.OperationalError as error:
            raise ValueError(WORDS.get(str(error), str(error))) from None
        finally:
            cursor.close()
            self._ours = True
            self._connection.set_progress_handler(None, 0)

    def state(self) -> str:
        """Hash of all rows of all tables, for any contents. Text counts as its bytes, and differs from blobs."""
        self._connection.text_factory = lambda raw: ("text", raw)
        rows = [self._connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in self._tables]
        return hashlib.sha256(repr(rows).encode()).hexdigest()

    def close(self) -> None:
        self._connection.close()


def _calendar(plain: sqlite3.Connection, name: str) -> Callable[..., Any]:
    """SQLite's function ``name``, which takes only arguments that are known to need neither the clock nor a time zone."""

    def function(*arguments: Any) -> Any:
        moment, *changes = (
            arguments[1:] if name == "strftime" else arguments
        )  # no moment: an error, for SQLite takes now
        if not _is(moment, MOMENT) or not all(_is(one, CHANGE) for one in changes):
            raise ValueError(f"{name} would read the clock")
        marks = ", ".join("?" * len(arguments))
        return plain.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

    return function


def _is(argument: Any, form: re.Pattern[str]) -> bool:
    """Whether a text has this form. Numbers and NULL have any: SQLite reads no clock for them."""
    if isinstance(argument, str):
        return form.fullmatch(argument.strip(" ")) is not None
    return argument is None or isinstance(argument, int | float)
