"""Does a refusal tell the value that would have been right? Then guessing twice is as good as knowing."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from coevolve.audit.finding import Found
from coevolve.audit.subject import Subject, name
from coevolve.core.task import ToolCall

SHORTEST = 3  # characters of a value that is looked for: shorter ones occur by chance
LONGEST = 500


def leaks(subject: Subject) -> Found:
    """Each argument of each reference is made wrong in turn. What is then refused may not say the right value, if nothing before did,
    nor the tools' schemas."""
    bad, tried = [], 0
    schemas = json.dumps(subject.tools, ensure_ascii=False)
    for task in subject.tasks:
        reference = subject.environment.reference(task)
        said = subject.play(task, reference).said
        for turn, row, key, value in _values(reference):
            tried += 1
            before = [*reference[:turn], reference[turn][:row]]
            place = 1 + sum(map(len, before)) + turn  # of the answer to this call, in all that is heard
            known = "\n".join([schemas, *task.turns, *said[:place]])
            if value in known:
                continue
            call = reference[turn][row]
            wrong = replace(call, arguments={**call.arguments, key: _other(call.arguments[key])})
            heard = subject.play(task, [*before[:-1], [*before[-1], wrong]]).heard
            if len(heard) > place and heard[place].error and value in heard[place].content:
                bad.append(f"{name(task)}: a wrong {key} of {call.name} is answered with the right one")
    return Found(not bad if tried else None, {"arguments made wrong": tried}, bad)


def _values(reference: list[list[ToolCall]]) -> Iterator[tuple[int, int, str, str]]:
    """Turn, call, argument and value, as text, of all that could be told."""
    for turn, calls in enumerate(reference):
        for row, call in enumerate(calls):
            for key, value in call.arguments.items():
                text = value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""
                if SHORTEST <= len(text) <= LONGEST and not isinstance(value, bool):
                    yield turn, row, key, text


def _other(value: Any) -> Any:
    """Of the same type, and nothing that a refusal could repeat the right one by."""
    if isinstance(value, int | float):
        return value + 1
    return value[::-1] if value not in value[::-1] else "?" * len(value)
