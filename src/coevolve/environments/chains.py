"""Replay chains of calls: what each call changed, where its values came from, and which calls only enable later ones."""

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from coevolve.core.task import DONE, CallOutcome, Task, ToolCall
from coevolve.environments.border import crossed
from coevolve.environments.environment import Session


@dataclass(slots=True)
class Played:
    """A replayed reference: its calls, which of them changed the state, and the turns that the session said.

    ``ended``: the episode ended before the last message, by a call or because the session has no more turns. ``over``: it
    ended, also by the last message.
    """

    said: list[str]
    chain: list[CallOutcome] = field(default_factory=list)
    changed: list[bool] = field(default_factory=list)
    ended: bool = False
    over: bool = False

    @property
    def refused(self) -> CallOutcome | None:
        """The first call that the environment refused."""
        return next((call for call in self.chain if not call.ok), None)


def replay(
    session: Session, task: Task, reference: Sequence[Sequence[ToolCall]] | None = None, watch: bool = True
) -> Played:
    """Play ``reference`` (by default the task's reference) in a fresh world of ``task``, as `rollout` plays an agent.

    The calls of a turn are one reply, a message follows each turn, and nothing counts after the session's end. ``watch``
    costs one digest per call; without it no call counts as a change.
    """
    heard = session.reset(task)
    tools, played = heard.tools, Played([heard.content])
    turns = task.reference if reference is None else reference
    before = session.digest() if watch else ""
    for number, turn in enumerate(turns):
        if turn:
            session.begin_reply()
        for call in turn:
            heard = session.step(crossed(call, tools))
            after = session.digest() if watch else ""
            played.chain.append(CallOutcome(call.name, call.arguments, not heard.error, heard.content, number))
            played.changed.append(after != before)
            before = after
            if heard.done:
                played.ended = played.over = True
                return played
        heard = session.say(DONE)
        if heard.done:
            played.ended, played.over = number + 1 < len(turns), True
            return played
        tools = tools if heard.tools is None else heard.tools
        played.said.append(heard.content)
    return played


def precondition(session: Session, task: Task, chain: Sequence[CallOutcome], position: int) -> bool:
    """Whether the call at ``position`` only enables a later call of ``chain`` (of one turn), such as unlock or top up.

    An instruction need not ask for such a call. Without it the environment refuses a later call. No later call takes a
    value from its observation, or from a lookup that finds the value only because of this call.
    """
    calls = [ToolCall(call.name, call.arguments) for call in chain]
    without = replay(session, task, [calls[:position] + calls[position + 1 :]], watch=False).chain
    if len(without) + 1 == len(chain) and all(call.ok for call in without):
        return False
    for row in range(position + 1, len(chain)):
        for key, value in chain[row].arguments.items():
            source = source_of(key, value, chain, row)
            if source is None:
                continue
            if source == position:
                return False
            moved = source - (source > position)
            lost = (
                moved < len(without) and without[moved].ok and without[moved].observation != chain[source].observation
            )
            if lost and source_of(key, value, [without[moved]], 1) is None:
                return False
    return True


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The (key, scalar) pairs of a JSON value. Items of a list carry the list's key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, key)
    else:
        yield key, value


def paths(arguments: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The scalars and lists of scalars in the arguments of a call, each with its path, such as ``guest.name``.

    Each identifier in a list has a path of its own, such as ``contact_ids.0``.
    """
    if isinstance(arguments, dict):
        for key, value in arguments.items():
            yield from paths(value, f"{name}.{key}" if name else str(key))
    elif isinstance(arguments, list) and (
        is_identifier(f"{name}.0") or any(isinstance(one, dict) for one in arguments)
    ):
        for number, value in enumerate(arguments):
            yield from paths(value, f"{name}.{number}")
    else:
        yield name, arguments


def data_of(text: str) -> Any:
    """The data in an observation, which is JSON or a printed Python value; other text unchanged."""
    items = text.replace("}\n{", "},{")  # MCP servers send each item of a list as a text
    try:
        return json.loads(text if items == text else f"[{items}]")
    except ValueError:
        pass
    try:
        return ast.literal_eval(text) if text[:1] in tuple("[{(") else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def observed(text: str) -> list[tuple[str, Any]]:
    """The leaves of an observation. Plain text is a single leaf without a key."""
    return list(leaves(data_of(text)))


def is_identifier(key: str) -> bool:
    """Whether an argument of this name takes a value that only the environment knows."""
    return re.sub(r"s\.\d+$", "", key).lower().endswith("id")


def source_of(key: str, value: Any, chain: Sequence[CallOutcome], before: int, single: bool = True) -> int | None:
    """Position of the last call before ``before`` that revealed ``value``; None if the user must have given it.

    Numbers coincide easily: they count only if the names agree or the argument is an identifier. With ``single``, a
    value that is not an identifier counts only if its observation holds no other value of that name, because words
    could not tell the two apart.
    """
    for position in _may_reveal(value, chain, before):
        results = observed(chain[position].observation)
        for name, revealed in results:
            same = revealed == value and type(revealed) is type(value)
            if not same or not (isinstance(value, str) or name == key or is_identifier(key)):
                continue
            if is_identifier(key) or not single or _alone(name, results):
                return position
    return None


def _may_reveal(value: Any, chain: Sequence[CallOutcome], before: int) -> Iterator[int]:
    """The calls before ``before``, the last first, whose observation may reveal ``value``: accepted, and without it as argument."""
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, str) and len(value) < 2):
        return
    for position in range(before - 1, -1, -1):
        call = chain[position]
        if call.ok and not any(given == value for _, given in leaves(call.arguments)):
            yield position


def _alone(name: str, results: Sequence[tuple[str, Any]]) -> bool:
    """Whether ``results`` hold a single value of this name."""
    return len({json.dumps(value) for other, value in results if other == name}) == 1


@dataclass(frozen=True, slots=True)
class Revealed:
    """A value in an observation: the ``field`` that holds it, and the other scalars of its ``record``.

    In a mapping such as {"mia": "billing"}, a key is a value of the field KEY, and the record's field VALUE is beside it.
    """

    field: str
    value: Any
    record: Mapping[str, Any]


KEY, VALUE = "key", "value"


@lru_cache(maxsize=4096)
def shown_in(observation: str) -> tuple[Revealed, ...]:
    """The scalars in an observation, each with its record."""
    return tuple(_shown(data_of(observation)))


def _shown(data: Any, name: str = "", record: Mapping[str, Any] | None = None) -> Iterator[Revealed]:
    """The scalars of ``data``, each with its record. Items of a list carry the list's field and its record."""
    if isinstance(data, dict):
        own = {str(key): value for key, value in data.items() if not isinstance(value, dict | list | tuple)}
        for key, value in data.items():
            yield from _shown(value, str(key), {other: own[other] for other in own if other != str(key)})
        for key, value in data.items():
            beside = value if isinstance(value, dict) else {VALUE: value}
            scalars = {str(other): one for other, one in beside.items() if not isinstance(one, dict | list | tuple)}
            yield Revealed(KEY, str(key), scalars)
    elif isinstance(data, list | tuple):
        for inner in data:
            yield from _shown(inner, name, record)
    else:
        yield Revealed(name, data, record or {})


@dataclass(frozen=True, slots=True)
class Origin:
    """The call at ``position`` revealed a value in its ``field``. ``distinct``: scalars beside it that no other record has.

    ``alone``: the field holds no other value in that observation.
    """

    position: int
    field: str
    distinct: Mapping[str, Any]
    alone: bool


def origin_of(key: str, value: Any, chain: Sequence[CallOutcome], before: int) -> Origin | None:
    """Where the last call before ``before`` revealed ``value``; None if the user must have given it.

    In contrast to ``source_of``, a key of a mapping counts, and so does one of several values, if its record tells it apart.
    """
    for position in _may_reveal(value, chain, before):
        places = shown_in(chain[position].observation)
        same = [one for one in places if one.value == value and type(one.value) is type(value)]
        same = [
            one for one in same if isinstance(value, str) or one.field == key.rsplit(".", 1)[-1] or is_identifier(key)
        ]
        for one in sorted(same, key=lambda one: one.field == KEY):
            rivals = [other.record for other in places if other.field == one.field and other.value != value]
            distinct = {
                name: beside
                for name, beside in one.record.items()
                if beside not in (None, "") and not any(other.get(name) == beside for other in rivals)
            }
            if distinct or not rivals:
                return Origin(position, one.field, distinct, not rivals)
    return None


def told_by(
    path: str, value: Any, chain: Sequence[CallOutcome], position: int, revealed: Collection[str]
) -> Origin | None:
    """The origin of a value that users leave to a lookup: an identifier, or a value of a ``tool.argument`` in ``revealed``.

    Other values of a call may coincide with what a lookup shows.
    """
    left = is_identifier(path) or f"{chain[position].name}.{path}" in revealed
    return origin_of(path, value, chain, position) if left else None


def ambiguous(chain: Sequence[CallOutcome]) -> bool:
    """Whether the lookup of an identifier found several values: words cannot say which of them is meant."""
    for position, call in enumerate(chain):
        for key, value in call.arguments.items():
            source = source_of(key, value, chain, position)
            if source is None:
                continue
            results = observed(chain[source].observation)
            if not any(_alone(name, results) for name, other in results if other == value):
                return True
    return False
