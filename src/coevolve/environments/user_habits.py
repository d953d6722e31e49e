"""What the training tasks of an environment show about its users: what they ask for, and which values they name.

Each reference is replayed. A value that the instruction holds was named by the user. A value that an earlier call shows is left
to that lookup. Any other value is implied.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from coevolve.core.interruptions import contained
from coevolve.core.mentions import mentions
from coevolve.core.task import CallOutcome, Task
from coevolve.environments.chains import is_identifier, origin_of, paths, precondition, replay, told_by
from coevolve.environments.environment import Environment, Session

Argument = tuple[str, str]  # a tool and the path of an argument
DICTATED = ("text", "content", "body", "message", "comment", "note", "reason")  # arguments that take a user's words
READ = 256  # most tasks to read


@dataclass(frozen=True)
class UserRequest:
    """A task of one turn with its replayed calls, of which it asks for those at ``asked`` and then for a field of a result.

    ``revealed``: the ``tool.argument`` pairs, besides identifiers, whose values a lookup shows.
    """

    task: Task
    calls: Sequence[CallOutcome]
    asked: Sequence[int]
    question: tuple[int, str] | None
    revealed: Collection[str]

    @property
    def rows(self) -> list[int]:
        return [*self.asked, *([self.question[0]] if self.question else [])]


@dataclass(frozen=True)
class UserHabits:
    """``requests``: the training tasks that were understood, of ``tasks`` tasks. ``unread``: the others, each with the reason.

    ``given``: of the uses of an argument, the share whose value the user names. ``homes``: the fields of the world that hold
    these values. ``origins``: the (tool, field) pairs that reveal the others. ``shapes``: the sets of arguments of a tool's
    calls. ``texts``: by the name of an argument or of a field of worlds, texts that users gave or worlds hold; "" has those of users.
    ``asked``: lookups that users ask for, and ``lookups``, the share of tasks that ask for nothing else. ``enabling``: tools
    that change something and that users do not ask for if another call needs it.
    """

    requests: Sequence[UserRequest]
    tasks: int
    unread: Sequence[tuple[str, str]]
    given: Mapping[Argument, float]
    homes: Mapping[Argument, Counter[str]]
    origins: Mapping[Argument, Counter[Argument]]
    shapes: Mapping[str, list[frozenset[str]]]
    texts: Mapping[str, Sequence[str]]
    asked: frozenset[str]
    lookups: float
    enabling: frozenset[str]

    def said(self, tool: str, key: str) -> float:
        """The share of values of this argument that users name: of this tool, or else of all that have the argument."""
        if (tool, key) in self.given:
            return self.given[tool, key]
        shared = [share for (_, other), share in self.given.items() if other == key]
        return sum(shared) / len(shared) if shared else float(not is_identifier(key))

    def texts_for(self, key: str) -> Sequence[str]:
        """Texts for an argument that no task uses: of the same name, or any text of a user where users dictate."""
        return self.texts.get(key) or (self.texts.get("", ()) if key.endswith(DICTATED) else ())

    def of(self, table: Mapping[Argument, Counter[Any]], tool: str, key: str) -> Counter[Any]:
        """The entry of ``origins`` or ``homes`` for this argument, or else those for identifiers of the same name."""
        if (tool, key) in self.given:
            return table.get((tool, key), Counter())
        return sum((counts for (_, other), counts in table.items() if other == key and is_identifier(key)), Counter())


@lru_cache(maxsize=8)
def habits_of(environment: Environment) -> UserHabits:
    """The habits that the first ``READ`` training tasks of ``environment`` show."""
    reader = _Reader()
    with closing(environment.open()) as session:
        for task in environment.tasks("seed")[:READ]:
            reader.read(session, task)
    return reader.habits()


class _Reader:
    """Counts what tasks ask for and name."""

    def __init__(self) -> None:
        self._requests: list[UserRequest] = []
        self._unread: dict[str, str] = {}
        self._given: dict[Argument, list[bool]] = defaultdict(list)
        self._homes: dict[Argument, Counter[str]] = defaultdict(Counter)
        self._origins: dict[Argument, Counter[Argument]] = defaultdict(Counter)
        self._shapes: dict[str, list[frozenset[str]]] = defaultdict(list)
        self._texts: dict[str, dict[str, None]] = defaultdict(dict)
        self._asked: Counter[str] = Counter()
        self._enabling: set[str] = set()
        self._lookups = self._tasks = 0

    def read(self, session: Session, task: Task) -> None:
        self._tasks += 1
        causes: list[str] = []
        reasons: list[str] = []
        with contained(causes):
            reasons = self._replay(session, task)
        for reason in [*reasons, *(f"its calls break the session ({cause})" for cause in causes)]:
            self._unread.setdefault(" ".join(task.turns[:1]), reason)

    def _replay(self, session: Session, task: Task) -> list[str]:
        """Count what ``task`` shows, or say why it shows nothing."""
        if len(task.turns) != 1:
            return [f"has {len(task.turns)} turns"]
        played = replay(session, task)
        chain, changed, ended = played.chain, played.changed, played.ended
        if not chain or not all(call.ok for call in chain):
            return ["its reference is refused"]
        answer = next(iter(chain[-1].arguments.values()), None) if ended else None
        calls = chain[:-1] if ended else chain
        revealed = _revealed(calls, task.turns[0])
        self._count(task, calls, revealed)
        changes = [row for row in range(len(calls)) if changed[row]]
        effects = [row for row in changes if not precondition(session, task, chain, row)]
        self._enabling.update(calls[row].name for row in changes if row not in effects)
        asked = effects + [
            row for row in range(max(effects, default=-1) + 1, len(calls)) if not _used(calls, row, revealed)
        ]
        question = None
        if ended:
            asked = effects
            origin = None if answer is None else origin_of("", answer, chain, len(calls))
            question = (origin.position, origin.field) if origin and origin.field else None
        self._asked.update(calls[row].name for row in asked if not changed[row])
        self._lookups += not effects
        self._requests.append(UserRequest(task, calls, asked, question, revealed))
        return []

    def _count(self, task: Task, calls: Sequence[CallOutcome], revealed: Collection[str]) -> None:
        text, world = task.turns[0], list(fields_of(task.world))
        for row, call in enumerate(calls):
            self._shapes[call.name].append(frozenset(call.arguments))
            for path, value in paths(call.arguments):
                argument = (call.name, path)
                origin = None if mentions(value, text) else told_by(path, value, calls, row, revealed)
                self._given[argument].append(origin is None)
                if origin is not None:
                    self._origins[argument][calls[origin.position].name, origin.field] += 1
                homes = {place for place, one in world if one == value and type(one) is type(value)}
                self._homes[argument].update(homes)
                if isinstance(value, str) and not homes and " " in value:
                    self._texts[""][value] = self._texts[path][value] = None
        for place, value in world:
            if isinstance(value, str) and " " in value:
                self._texts[place.rsplit(".", 1)[-1]][value] = None

    def habits(self) -> UserHabits:
        return UserHabits(
            requests=self._requests,
            tasks=self._tasks,
            unread=list(self._unread.items()),
            given={argument: sum(given) / len(given) for argument, given in self._given.items()},
            # numbers may coincide with others of the world, so a home holds most values
            homes={
                argument: Counter(
                    {place: count for place, count in places.items() if count >= len(self._given[argument]) / 2}
                )
                for argument, places in self._homes.items()
            },
            origins=self._origins,
            shapes=self._shapes,
            texts={name: list(values) for name, values in self._texts.items()},
            asked=frozenset(self._asked),
            lookups=self._lookups / max(self._tasks, 1),
            enabling=frozenset(self._enabling),
        )


def _revealed(calls: Sequence[CallOutcome], text: str) -> tuple[str, ...]:
    """The ``tool.argument`` pairs besides identifiers whose values a lookup told: alone, or with a field that ``text`` names."""
    found = set()
    for row, call in enumerate(calls):
        for path, value in paths(call.arguments):
            origin = origin_of(path, value, calls, row)
            if origin and (origin.alone or any(mentions(one, text) for one in origin.distinct.values())):
                found.add(f"{call.name}.{path}")
    return tuple(sorted(found))


def _used(calls: Sequence[CallOutcome], row: int, revealed: Collection[str]) -> bool:
    """Whether a later call takes a value from the call at ``row``."""
    return any(
        (origin := told_by(path, value, calls, later, revealed)) is not None and origin.position == row
        for later in range(row + 1, len(calls))
        for path, value in paths(calls[later].arguments)
    )


def fields_of(world: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The scalars of a world with their places, such as ``tickets.id``; the keys of a mapping of records count too."""
    if isinstance(world, dict):
        for key, value in world.items():
            inner = f"{place}.{key}" if place else str(key)
            if isinstance(value, dict) and place:
                yield f"{place}.*", str(key)
                inner = f"{place}.*"
            yield from fields_of(value, inner)
    elif isinstance(world, list):
        for value in world:
            yield from fields_of(value, place)
    else:
        yield place, world


def values_at(world: Any, places: Collection[str]) -> list[Any]:
    """The different values at ``places`` of a world."""
    found: dict[Any, None] = {
        value: None for place, value in fields_of(world) if place in places and value not in ("", None)
    }
    return list(found)


def beside(value: Any, world: Any) -> list[Any]:
    """The values in all places of ``world`` that hold ``value``."""
    return values_at(world, {place for place, found in fields_of(world) if found == value})
