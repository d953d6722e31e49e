"""Answers to new requests in the columns of a data set, for classes whose reward reads them (a `goal`, an `expected` state).

A new task starts in the world of a known row, whose columns hold the answer to the old request. A value of such a column is
rewritten if the old reference leads to that value in the state, its arguments or its answers, and the new reference to another
one. The class itself then decides: it must reward the new reference, and neither the old one nor an agent that does nothing.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from coevolve.core.hashing import by_value, content_hash
from coevolve.core.task import Task
from coevolve.environments.chains import data_of, replay
from coevolve.environments.row_environment import RowEnvironment, RowSession

Path = tuple[str | int, ...]
Facts = dict[Path, Any]
CALL = "call "  # begins the names of calls among facts; no attribute has a space
AT_ONCE = 3  # most columns to rewrite together: their subsets are tried, the small ones first


class NewAnswers:
    """Makes rows of new tasks. ``known`` are the tasks of the data set, with references."""

    def __init__(self, environment: RowEnvironment, known: Sequence[Task]) -> None:
        self._environment = environment
        self._known = {content_hash(task.world): task for task in known if task.calls}

    def row(self, task: Task) -> tuple[Task | None, str]:
        """``task`` as a row that the class rewards, or None with the reason. Its world has the columns."""
        old, unchanged = self._known.get(content_hash(task.world)), _asked(task, task.world)
        with closing(self._environment.open()) as session:
            first = self._flaw(session, unchanged, None)
            if not first:
                return unchanged, ""
            for world in self._rewritten(session, task, old) if old else ():
                row = _asked(task, world)
                if not self._flaw(session, row, old):
                    return row, ""
        return None, first

    def _flaw(self, session: RowSession, row: Task, old: Task | None) -> str:
        """Why the class does not reward this ``row`` for its reference alone; empty if it does."""
        if (reward := _reward(session, row, row.reference)) < 1.0:
            return f"its reference gets {reward:g}"
        if _reward(session, row, []) >= 1.0:
            return "an agent that does nothing gets 1"
        if old is not None and _reward(session, row, old.reference) >= 1.0:
            return "the answer to the old request gets 1"
        return ""

    def _rewritten(self, session: RowSession, task: Task, old: Task) -> Iterator[dict[str, Any]]:
        """Worlds of ``task`` with new answers."""
        before, after = _facts(session, old), _facts(session, task)
        tried: list[dict[str, Any]] = []
        for as_lists, calls_first in product((False, True), repeat=2):
            changes = Changes(before, after, as_lists, calls_first)
            columns = {name: changes.column(value) for name, value in task.world.items() if name != "prompt"}
            new = {name: value for name, value in columns.items() if value != task.world[name]}
            if new in tried:
                continue
            tried.append(new)
            for size in range(1, AT_ONCE + 1):
                for names in combinations(new, size):
                    yield {**task.world, **{name: new[name] for name in names}}


def _asked(task: Task, world: Mapping[str, Any]) -> Task:
    """``task`` as a row of its own, which the class scores."""
    prompt = asking(world["prompt"], task.turns[0]) if "prompt" in world else task.turns[0]
    return replace(task, world={**world, "prompt": prompt}, provenance=None)


def asking(prompt: Any, words: str) -> Any:
    """``prompt`` with other words as its last message."""
    if not isinstance(prompt, list) or not prompt:
        return words
    last = prompt[-1]
    content = [{"type": "text", "text": words}] if isinstance(last["content"], list) else words
    return [*prompt[:-1], {**last, "content": content}]


def _reward(session: RowSession, row: Task, reference: Any) -> float:
    """The reward of the class after ``reference``; 0 for a row that the class cannot play."""
    try:
        replay(session, row, reference, watch=False)
        return session.reward() or 0.0
    except Exception:  # of a class that a person wrote, on a row that nobody wrote
        return 0.0


def _facts(session: RowSession, task: Task) -> Facts:
    """What the reference of ``task`` leads to, by path: the state, the arguments of its calls, and their answers."""
    played = replay(session, task, watch=False)
    facts = {name: _tables(value) for name, value in session.state().items()}
    for call in played.chain:
        facts[CALL + call.name] = {**call.arguments, "answer": data_of(call.observation)}
    return dict(_nodes(by_value(facts)))


def _nodes(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All values within ``value`` by their path, containers before their parts."""
    yield path, value
    for key, part in _parts(value):
        yield from _nodes(part, (*path, key))


def _parts(value: Any) -> list[tuple[str | int, Any]]:
    """The parts of a container by name. Records of a list have the first text that tells them apart as their name."""
    if isinstance(value, dict):
        return list(value.items())
    if not isinstance(value, list):
        return []
    if value and all(isinstance(part, dict) for part in value):
        for key in value[0]:
            names = [part.get(key) for part in value]
            if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
                return list(zip(names, value, strict=True))
    return list(enumerate(value))


def _tables(value: Any) -> Any:
    """The rows by table if ``value`` is the state of an SQLite database, which is the statements that make it."""
    if not (isinstance(value, list) and value[:1] == ["BEGIN TRANSACTION;"]):
        return value
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript("\n".join(value))
        database.row_factory = sqlite3.Row
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        return {
            name: [dict(row) for row in database.execute(f"select * from {json.dumps(name)} order by rowid")]
            for name in names
        }


class Changes:
    """The values of ``before`` that are others ``after``.

    ``as_lists``: the columns hold records as lists of their values. ``calls_first``: a value that a call and the state both
    changed is the call's.
    """

    def __init__(self, before: Facts, after: Facts, as_lists: bool, calls_first: bool) -> None:
        changes = [
            (path, value, after[path])
            for path, value in before.items()
            if path and path in after and value != after[path]
        ]
        if as_lists:
            changes = [(path, _as_lists(old), _as_lists(new)) for path, old, new in changes]
        self._changes = sorted(changes, key=lambda change: str(change[0][0]).startswith(CALL) != calls_first)
        moved = {path[0] for path, _, _ in self._changes}
        self._names = {name for path in before if path and path[0] in moved for name in path}

    def column(self, value: Any) -> Any:
        """``value`` of a column after the changes. A text that is JSON is written anew as JSON."""
        if isinstance(value, str):
            with suppress(ValueError):
                data = json.loads(value)
                new = self._part(data, ())
                return value if new == data else json.dumps(new, ensure_ascii=False)
        return self._part(value, ())

    def _part(self, value: Any, path: Path) -> Any:
        """``value`` at ``path`` of a column, each part as the change that has all its names tells, if one does."""
        names = {key for key in path if isinstance(key, str)} & self._names
        for place, old, new in self._changes:
            if names <= set(place) and old == value and type(old) is type(value):
                return new
        written = [self._part(part, (*path, key)) for key, part in _parts(value)]
        if not written:
            return value
        return dict(zip(value, written, strict=True)) if isinstance(value, dict) else written


def _as_lists(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return [list(part.values()) for part in value]
    return value
