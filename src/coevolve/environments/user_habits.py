"""What the training tasks of an environment show about its users: what they ask for, and which values they name.

Each reference is replayed. A value that the instruction holds was named by the user. A value that an earlier call shows is left
to that lookup. Any other value is implied.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean
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


@dataclass
class UserHabits:
    """``requests``: the training tasks that were understood, of ``tasks`` tasks. ``unread``: the others, each with the reason.

    ``given``: of each use of an argument, whether the user names its value. ``homes``: the fields of the world that hold
    these values. ``origins``: the (tool, field) pairs that reveal the others. ``shapes``: the sets of arguments of a tool's
    calls. ``texts``: by the name of an argument or of a field of worlds, texts that users gave or worlds hold; "" has those of users.
    ``asked``: lookups that users ask for, and ``lookups``, the tasks that ask for nothing else. ``enabling``: tools
    that change something and that users do not ask for if another call needs it.
    """

    requests: list[UserRequest] = field(default_factory=list)
    tasks: int = 0
    unread: dict[str, str] = field(default_factory=dict)
    given: dict[Argument, list[bool]] = field(default_factory=lambda: defaultdict(list))
    homes: dict[Argument, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    origins: dict[Argument, Counter[Argument]] = field(default_factory=lambda: defaultdict(Counter))
    shapes: dict[str, list[frozenset[str]]] = field(default_factory=lambda: defaultdict(list))
    texts: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    asked: set[str] = field(default_factory=set)
    lookups: int = 0
    enabling: set[str] = field(default_factory=set)

    def said(self, tool: str, key: str) -> float:
        """The share of values of this argument that users name: of this tool, or else of all that have the argument."""
        if (tool, key) in self.given:
            return fmean(self.given[tool, key])
        shared = [fmean(named) for (_, other), named in self.given.items() if other == key]
        return sum(shared) / len(shared) if shared else float(not is_identifier(key))

    def texts_for(self, key: str) -> Collection[str]:
        """Texts for an argument that no task uses: of the same name, or any text of a user where users dictate."""
        return self.texts.get(key, ()) or (self.texts.get("", ()) if key.endswith(DICTATED) else ())

    def of(self, table: Mapping[Argument, Counter[Any]], tool: str, key: str) -> Counter[Any]:
        """The entry of ``origins`` or ``homes`` for this argument, or else those for identifiers of the same name."""
        if (tool, key) in self.given:
            return table.get((tool, key), Counter())
        return sum((counts for (_, other), counts in table.items() if other == key and is_identifier(key)), Counter())

    def read(self, session: Session, task: Task) -> None:
        """Count what ``task`` shows."""
        self.tasks += 1
        causes: list[str] = []
        reason = ""
        with contained(causes):
            reason = self._replay(session, task)
        if reason or causes:
            self.unread.setdefault(" ".join(task.turns[:1]), reason or f"its calls break the session ({causes[0]})")

    def _replay(self, session: Session, task: Task) -> str:
        """Count what ``task`` shows, or say why it shows nothing."""
        if len(task.turns) != 1:
            return f"has {len(task.turns)} turns"
        played = replay(session, task)
        chain, changed, ended = played.chain, played.changed, played.ended
        if not chain or played.refused:
            return "its reference is refused"
        answer = next(iter(chain[-1].arguments.values()), None) if ended else None
        calls = chain[:-1] if ended else chain
        revealed = _revealed(calls, task.turns[0])
        self._count(task, calls, revealed)
        changes = [row for row in range(len(calls)) if changed[row]]
        effects = [row for row in changes if not precondition(session, task, chain, row)]
        self.enabling.update(calls[row].name for row in changes if row not in effects)
        asked = effects + [
            row for row in range(max(effects, default=-1) + 1, len(calls)) if not _used(calls, row, revealed)
        ]
        question = None
        if ended:
            asked = effects
            origin = None if answer is None else origin_of("", answer, chain, len(calls))
            question = (origin.position, origin.field) if origin and origin.field else None
        self.asked.update(calls[row].name for row in asked if not changed[row])
        self.lookups += not effects
        self.requests.append(UserRequest(task, calls, asked, question, revealed))
        return ""

    def _count(self, task: Task, calls: Sequence[CallOutcome], revealed: Collection[str]) -> None:
        text, world = task.turns[0], list(fields_of(task.world))
        for row, call in enumerate(calls):
            self.shapes[call.name].append(frozenset(call.arguments))
            for path, value in paths(call.arguments):
                argument = (call.name, path)
                origin = None if mentions(value, text) else told_by(path, value, calls, row, revealed)
                self.given[argument].append(origin is None)
                if origin is not None:
                    self.origins[argument][calls[origin.position].name, origin.field] += 1
                homes = {place for place, one in world if one == value and type(one) is type(value)}
                self.homes[argument].update(homes)
                if isinstance(value, str) and not homes and " " in value:
                    self.texts[""][value] = self.texts[path][value] = None
        for place, value in world:
            if isinstance(value, str) and " " in value:
                self.texts[place.rsplit(".", 1)[-1]][value] = None


@lru_cache(maxsize=8)
def habits_of(environment: Environment) -> UserHabits:
    """The habits that the first ``READ`` training tasks of ``environment`` show."""
    habits = UserHabits()
    with closing(environment.open()) as session:
        for task in environment.tasks("seed")[:READ]:
            habits.read(session, task)
    for argument, places in habits.homes.items():
        # numbers may coincide with others of the world, so a home holds most values
        most = len(habits.given[argument]) / 2
        habits.homes[argument] = Counter({place: count for place, count in places.items() if count >= most})
    return habits


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
