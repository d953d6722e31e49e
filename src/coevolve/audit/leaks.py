"""Check that a refusal does not reveal the right value: otherwise a second guess is always right."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from coevolve.audit.finding import Found
from coevolve.audit.subject import Subject, name
from coevolve.core.task import ToolCall

SHORTEST = 3  # fewest characters of a value to look for, because shorter values occur by chance
LONGEST = 500


def leaks(subject: Subject) -> Found:
    """Make each argument of each reference wrong, one at a time. The refusal must not contain the right value.

    Values that earlier answers, the instruction or the tools' schemas contain do not count.
    """
    bad, tried = [], 0
    schemas = json.dumps(subject.tools, ensure_ascii=False)
    for task in subject.tasks:
        reference = subject.environment.reference(task)
        said = subject.play(task, reference).said
        for turn, row, key, value in _values(reference):
            tried += 1
            before = [*reference[:turn], reference[turn][:row]]
            place = 1 + sum(map(len, before)) + turn  # index of the answer to this call among all answers
            known = "\n".join([schemas, *task.turns, *said[:place]])
            if value in known:
                continue
            call = reference[turn][row]
            wrong = replace(call, arguments={**call.arguments, key: _other(call.arguments[key])})
            heard = subject.play(task, [*before[:-1], [*before[-1], wrong]]).heard
            if len(heard) > place and heard[place].error and value in heard[place].content:
                bad.append(f"{name(task)}: the answer to a wrong {key} of {call.name} contains the right one")
    return Found(not bad if tried else None, {"arguments made wrong": tried}, bad)


def _values(reference: list[list[ToolCall]]) -> Iterator[tuple[int, int, str, str]]:
    """Turn, call, argument and value (as text) of all values that a refusal could reveal."""
    for turn, calls in enumerate(reference):
        for row, call in enumerate(calls):
            for key, value in call.arguments.items():
                text = value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""
                if SHORTEST <= len(text) <= LONGEST and not isinstance(value, bool):
                    yield turn, row, key, text


def _other(value: Any) -> Any:
    """A wrong value of the same type, which does not contain the right value."""
    if isinstance(value, int | float):
        return value + 1
    return value[::-1] if value not in value[::-1] else "?" * len(value)
