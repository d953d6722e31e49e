"""An expert that solves any generated task by calls to the environment.

It knows the intent of the task and the meaning of the tools. It learns identifiers, locks, trashed files, empty wallets and
new names only from observations.
"""

import json
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve_environments.miniworld.apps import COMPLETE
from coevolve_environments.miniworld.session import MiniworldSession, renamed

Intent = list[dict[str, Any]]


def solve(session: MiniworldSession, task: Task, intent: Intent) -> list[CallOutcome]:
    """Play ``task``. Returns the accepted calls in order, without detours. An intent is a list of goals:

    ``{"tool": name, "find": {argument: [lookup, arguments]}, "give": {argument: value}}`` or
    ``{"ask": [lookup, arguments, field]}`` (at most one, at the end).
    """
    session.reset(task)
    variant = str(task.world.get("variant", "plain"))
    made: list[CallOutcome] = []
    answer: dict[str, Any] = {}
    for goal in intent:
        if "ask" in goal:
            lookup, arguments, field = goal["ask"]
            answer = {"answer": str(_first(_do(session, variant, made, lookup, arguments))[field])}
            continue
        found = {
            key: _first(_do(session, variant, made, lookup, arguments))["id"]
            for key, (lookup, arguments) in goal["find"].items()
        }
        _do(session, variant, made, goal["tool"], {**found, **goal["give"]})
    _do(session, variant, made, COMPLETE, answer)
    return made


def _first(observation: str) -> dict[str, Any]:
    value = json.loads(observation)
    if isinstance(value, list):
        if len(value) != 1:
            raise CoevolveError(f"the expert expected one result, found {observation}")
        value = value[0]
    found: dict[str, Any] = value
    return found


def _do(session: MiniworldSession, variant: str, made: list[CallOutcome], name: str, arguments: dict[str, Any]) -> str:
    """Make a call. If the environment refuses it for a reason that the expert can fix, fix it and try again."""
    call = renamed(ToolCall(name, arguments), variant)
    turn = session.step(call)
    if turn.error:
        words = turn.content.replace(";", "").split()
        if words[-1] != "first" or words[-2] == "find":
            raise CoevolveError(f"the expert cannot fix: {turn.content}")
        if "locked" in words:
            _do(session, variant, made, "unlock", {"app": words[0]})
        elif "trashed" in words:
            _do(session, variant, made, "restore_file", {"file_id": words[0]})
        else:
            _do(session, variant, made, "top_up", {"amount": int(words[-2])})
        return _do(session, variant, made, name, arguments)
    made.append(CallOutcome(call.name, call.arguments, True, turn.content))
    return turn.content
