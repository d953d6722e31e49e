"""Interactive SQL over SQLite, in the manner of InterCode-SQL (arXiv 2306.14898): schema on request, queries with
feedback from execution, and a graded reward from comparing result sets. Databases are made from seeds.

The database is read-only for the agent unless the task's world sets ``writable``. Then the score also judges its state.
"""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import cache, lru_cache
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.worker import WorkerEnvironment
from coevolve.words.lexicon import Lexicon, Meaning, Senses
from coevolve_environments.episode import PARTIAL, AdapterSession, tool
from coevolve_environments.sql.databases import DOMAINS, FAMILIES, Family, ask, columns_of, questions, read, texts
from coevolve_environments.sql.guarded_database import Database, Result, World
from coevolve_environments.sql.sql_words import lexicon

VERSION = 3
SIZES = {"seed": 256, "validation": 128, "test": 128, "hard": 64, "shifted": 64}
TRIES = 60  # databases to try before a family counts as without a question for a split
SHOWN = 30  # rows that an observation shows
MAX_SHOWN = 20_000  # most characters of an observation


TOOLS = [
    tool("tables", "The tables and their columns"),
    tool("query", "Run one SQL statement (SQLite) and see its result", sql="one statement"),
    tool(
        "submit", "Hand in the statement whose result answers the question; ends the task", sql="one SELECT statement"
    ),
]


class SQL(Environment):
    """Questions about databases made from seeds. ``shifted`` has a domain that no other split has."""

    name = "sql"
    fingerprint = f"sql-{VERSION}-sqlite-{sqlite3.sqlite_version}"
    license = "Apache-2.0"
    panels = ("validation", "test", "hard", "shifted")

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _tasks(split)

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> "SQLSession":
        return SQLSession()

    def reading(self, task: Task) -> list[ToolCall] | None:
        """Parses questions about every domain, because it runs no statement."""
        text = " ".join(task.turns)
        domains = dict.fromkeys((_world(task)[0], *DOMAINS))
        found = next((asked for domain in domains if (asked := read(domain, text))), [])
        return [_asking(family, statement) for family, statement in found] or None

    def meaning(self, task: Task) -> Meaning | None:
        from coevolve_environments.sql.statement import does, must, parsed, writes

        statements = [statement for _, statement in _statements(task)]
        trees = [tree for one in statements if (tree := parsed(one)) is not None]
        if len(trees) < len(statements):
            return None
        domain, seed, _ = _world(task)
        done: Senses = frozenset().union(*(does(one, _columns(domain)) for one in trees))
        asked = [tree for tree in trees[:-1] if writes(tree)] + trees[-1:]
        sentences = [sentence for statement in statements for sentence in questions(domain, statement)]
        return Meaning(_lexicon(domain, seed), done, [one for tree in asked for one in must(tree)], sentences)

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        return {**task.world, "seed": derive_seed("sql fresh world", seed) % 2**31}


class GuardedSQL(WorkerEnvironment):
    """The environment in workers: a statement can hold the interpreter's lock, and only a process can be killed."""

    reading, meaning = SQL.reading, SQL.meaning  # they run no statement

    def __init__(self) -> None:
        super().__init__("sql", f"{__name__}:SQL", size=4, each=128, seconds=5.0, memory=1 << 30)


class SQLSession(AdapterSession):
    """An episode with a database."""

    environment = "sql"
    _database: Any = None  # of the current task

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self._world = _world(task)
        self._database = Database(self._world)
        self._submitted: Result | None = None
        return TOOLS

    def act(self, call: ToolCall) -> Observation:
        if call.name == "tables" and not call.arguments:
            tables = columns_of(self._world[0]).items()
            return Observation("tool", "\n".join(f"{name}({', '.join(columns)})" for name, columns in tables))
        statement = _statement(call)
        if statement is None:
            return Observation("tool", "expected tables(), query(sql) or submit(sql)", error=True)
        found = self._database.run(statement)
        if found.error:
            return Observation("tool", f"error: {found.error}"[:MAX_SHOWN], error=True)
        if call.name == "submit":
            self._submitted = found.rows
            return Observation("tool", "submitted", done=True)
        return Observation("tool", _shown(found.columns, found.rows))

    def judge(self, task: Task) -> Score:
        wanted, goal = _truth(self._world, _statements(task))
        checks = {"state": self._database.state() == goal}
        if wanted is None:
            return Score(float(checks["state"]), checks)
        checks["submitted"] = self._submitted is not None
        mine, right = (list(map(_rounded, result)) for result in (self._submitted or (), wanted))
        same = mine == right if _in_order(_statements(task)[-1][1]) else Counter(mine) == Counter(right)
        checks["result"] = self._submitted is not None and same
        if all(checks.values()):
            return Score(1.0, checks)
        return Score(PARTIAL * overlap(self._submitted or (), wanted) * checks["state"], checks)

    def digest(self) -> str:
        return "" if self.task is None else content_hash([self._database.state(), repr(self._submitted)])

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
        self.task = self._database = None


def _world(task: Task) -> World:
    domain, seed = task.world.get("domain"), task.world.get("seed")
    if not isinstance(domain, str) or domain not in DOMAINS:
        raise CoevolveError(f"sql has no domain {domain!r}; expected one of: {', '.join(DOMAINS)}")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise CoevolveError(f"task {task.task_id}: world needs `seed`, a whole number of at most 63 bits")
    return domain, seed, bool(task.world.get("writable"))


def _statement(call: ToolCall) -> str | None:
    """The statement in ``call``; None for a call without a statement."""
    statement = call.arguments.get("sql")
    known = call.name in ("query", "submit") and set(call.arguments) == {"sql"}
    return statement if known and isinstance(statement, str) else None


def _shown(columns: list[str], rows: Result) -> str:
    if not columns:
        return "done"
    lines = [
        " | ".join(columns),
        *(" | ".join("NULL" if one is None else str(one) for one in row) for row in rows[:SHOWN]),
    ]
    text = "\n".join([*lines, *([f"... {len(rows)} rows in all"] if len(rows) > SHOWN else [])])
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n... cut: {len(text)} characters in all"


def _statements(task: Task) -> tuple[tuple[str, str], ...]:
    """The statements of the reference, each with its tool."""
    found = ((call.name, _statement(call)) for call in task.calls)
    return tuple((name, statement) for name, statement in found if statement is not None) or (("", ""),)


@lru_cache(maxsize=4096)
def _truth(world: World, statements: tuple[tuple[str, str], ...]) -> tuple[Result | None, str]:
    """The result that the reference submits (None if it submits none), and the state that it leaves."""
    submitted: Result | None = None
    with closing(Database(world)) as database:
        for tool, statement in statements:
            found = database.run(statement)
            if tool == "submit" and not found.error:
                submitted = found.rows
        return submitted, database.state()


@lru_cache(maxsize=4096)
def _in_order(statement: str) -> bool:
    """Whether the outermost query of ``statement`` sorts its rows. A statement that sqlglot cannot parse counts as sorted."""
    from coevolve_environments.sql.statement import parsed  # sqlglot takes longer to import than a worker to start

    tree = parsed(statement)
    return tree is None or tree.unnest().args.get("order") is not None


def _rounded(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(round(one, 6) if isinstance(one, float) else one for one in row)


def overlap(one: Result, other: Result) -> float:
    """Intersection over union of two results as multisets of rows, as InterCode-SQL grades: 1 for equal rows.

    Values compare as in ``judge``: numbers by value, so 3 equals 3.0.
    """
    mine, right = (Counter(map(_rounded, result)) for result in (one, other))
    union = (mine | right).total()
    return (mine & right).total() / union if union else 1.0


@cache
def _columns(domain: str) -> dict[str, list[str]]:
    return {table: [one.split()[0] for one in found] for table, found in columns_of(domain).items()}


@lru_cache(maxsize=256)
def _lexicon(domain: str, seed: int) -> Lexicon:
    tables = _columns(domain)
    return lexicon(list(tables), [one for found in tables.values() for one in found], texts(domain, seed))


def _families(split: str) -> list[Family]:
    if split == "shifted":
        return [one for one in FAMILIES if one.domain == "clinic"]
    ours = [one for one in FAMILIES if one.domain != "clinic" and one.hard == (split == "hard")]
    return ours if split == "hard" else [one for one in ours if one.choices or split == home(one.sql)]


def home(statement: str) -> str:
    """The split of ``statement`` among the three splits with the same families. The other two do not use it."""
    return ("seed", "seed", "validation", "test")[int(content_hash(["sql split", statement], 8), 16) % 4]


def _asking(family: Family, statement: str) -> ToolCall:
    return ToolCall("query" if family.writes else "submit", {"sql": statement})


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    """The tasks of a split. Families alternate, so that a panel is balanced.

    A question with an empty answer, or whose statement belongs to another split, is drawn again for another database. A family
    without a question for this split is omitted.
    """
    families, found, number, missed = _families(split), dict[str, Task](), 0, 0
    while len(found) < SIZES[split]:
        family = families[len(found) % len(families)]
        if missed == TRIES:
            families.remove(family)
            found, missed = {}, 0
            continue
        rng = rng_for("sql tasks", split, number)
        seed = derive_seed("sql world", split, number) % 2**31
        number += 1
        words, statement = ask(family, seed, rng)
        missed += 1
        if split in ("seed", "validation", "test") and home(statement) != split:
            continue
        world: dict[str, Any] = {"seed": seed, "domain": family.domain}
        if family.writes:
            world["writable"] = True
        last = _asking(family, statement)
        task = Task.create("sql", split, [words], world, [[ToolCall("tables"), last]], [family.name, family.domain])
        wanted, _ = _truth(_world(task), _statements(task))
        if family.writes or any(any(value is not None for value in row) for row in wanted or ()):
            found[task.task_id] = task
            missed = 0
    return tuple(found.values())
