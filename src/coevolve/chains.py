"""Chains of calls, replayed: what each call did, where its values came from, and which calls are only means to an end."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.environment import Session


def replay(
    session: Session, task: Task, reference: Sequence[Sequence[ToolCall]] | None = None, watch: bool = True
) -> tuple[list[CallOutcome], list[bool], bool]:
    """Make the calls of ``reference`` (the task's own, if None) in a fresh world of ``task``.

    Returns the calls as made; for each of them, whether it changed the state; and whether a call ended the episode, after
    which no more are made. Without ``watch``, which costs a digest a call, none is said to have changed the state.
    """
    session.reset(task)
    chain: list[CallOutcome] = []
    changed: list[bool] = []
    turns = task.reference if reference is None else reference
    before = session.digest() if watch else ""
    for number, turn in enumerate(turns):
        for call in turn:
            heard = session.step(call)
            after = session.digest() if watch else ""
            chain.append(CallOutcome(call.name, call.arguments, not heard.error, heard.content, number))
            changed.append(after != before)
            before = after
            if heard.done:
                return chain, changed, True
        if number + 1 < len(turns):
            session.say("")
    return chain, changed, False


def precondition(session: Session, task: Task, chain: Sequence[CallOutcome], position: int) -> bool:
    """Whether the call at ``position`` only makes a later call of ``chain`` (of one turn) possible: unlock, top up.

    An instruction need not ask for such a call. Without it a later call is refused. No later call takes a value from its
    observation, or from a lookup that finds the value only because this call was made.
    """
    calls = [ToolCall(call.name, call.arguments) for call in chain]
    without, _, _ = replay(session, task, [calls[:position] + calls[position + 1 :]], watch=False)
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
    """(key, scalar) of a JSON value; items of a list carry the list's key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, key)
    else:
        yield key, value


def observed(text: str) -> list[tuple[str, Any]]:
    """The leaves of an observation; plain text is one leaf without a key."""
    try:
        return list(leaves(json.loads(text)))
    except ValueError:
        return [("", text)]


def is_identifier(key: str) -> bool:
    """Whether an argument of this name takes what only the environment knows."""
    return key.lower().endswith("id")


def source_of(key: str, value: Any, chain: Sequence[CallOutcome], before: int, single: bool = True) -> int | None:
    """Position of the last call before ``before`` that revealed ``value``; None if a person must have given it.

    Numbers coincide easily: they count only where the names agree or the argument is an identifier. With ``single`` a
    value that is no identifier counts only if its observation holds no other of that name: words could not tell them apart.
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or (isinstance(value, str) and len(value) < 2):
        return None
    for position in range(before - 1, -1, -1):
        call = chain[position]
        if not call.ok or any(given == value for _, given in leaves(call.arguments)):
            continue
        leaves_found = observed(call.observation)
        for name, found in leaves_found:
            same = found == value and type(found) is type(value)
            if not same or not (isinstance(value, str) or name == key or is_identifier(key)):
                continue
            if is_identifier(key) or not single or _alone(name, leaves_found):
                return position
    return None


def _alone(name: str, found: Sequence[tuple[str, Any]]) -> bool:
    """Whether an observation holds one value of this name."""
    return len({json.dumps(value) for other, value in found if other == name}) == 1


def ambiguous(chain: Sequence[CallOutcome]) -> bool:
    """Whether an identifier is one of several values that its lookup found: words cannot say which one is meant."""
    for position, call in enumerate(chain):
        for key, value in call.arguments.items():
            source = source_of(key, value, chain, position)
            if source is None:
                continue
            found = observed(chain[source].observation)
            if not any(_alone(name, found) for name, other in found if other == value):
                return True
    return False
