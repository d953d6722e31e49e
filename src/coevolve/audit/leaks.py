"""Check that an agent cannot read the right value: before it acts, in texts that tools show, and in refusals."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coevolve.audit.subject import MOST_CALLS, Subject, name
from coevolve.core.task import Task, ToolCall
from coevolve.environments.chains import observed
from coevolve.environments.tool_schema import tool_schema

SHORTEST, LONGEST = 3, 500  # characters of a value to look for, because shorter values occur by chance
PATH = re.compile(r"[\w./-]*[./][A-Za-z][\w-]*")  # a file in a text, such as notes/plan.txt
OPENS = re.compile("file|path|read|document")  # a tool that shows a file, by its name or that of its argument


def leaks(subject: Subject) -> Iterator[str]:
    """Do first messages, tool lists, files and refusals hide the right values?

    Looks for the values of each reference in texts from which the reference does not take them.

    - The first message and the tools that a task offers must not contain them.
    - Files and other texts that tools show must not contain them, unless an earlier answer to the reference does. Records and
      lists are data to look up, not texts.
    - A refusal must not contain them either: each argument is made wrong, one at a time.

    Values that the instruction or the declared tools contain do not count.
    """
    schemas, rivals = json.dumps(subject.tools, ensure_ascii=False), _rivals(subject)
    for task in subject.tasks:
        reference = subject.environment.reference(task)
        played = subject.play(task, reference)
        offered = json.dumps(played.heard[0].tools, ensure_ascii=False)
        instruction = "\n".join([schemas, *task.turns])
        shown: list[tuple[str, str]] | None = None
        for turn, row, key, value in _values(reference):
            call, before = reference[turn][row], [*reference[:turn], reference[turn][:row]]
            place = 1 + sum(map(len, before)) + turn  # index of the answer to this call among all answers
            if value in instruction:
                continue
            if _shows(played.said[0], value):
                yield f"{name(task)}: the first message contains the right {key} of {call.name}"
            if _shows(offered, value):
                yield f"{name(task)}: the tools that it offers contain the right {key} of {call.name}"
            if value in "\n".join(played.said[:place]):
                continue
            shown = _shown(subject, task) if shown is None else shown
            for who, text in shown:
                if value not in who and _tells(text, value, rivals[call.name, key]):
                    yield f"{name(task)}: {who} shows the right {key} of {call.name}, which its reference does not read"
                    break
            wrong = replace(call, arguments={**call.arguments, key: _other(call.arguments[key])})
            heard = subject.play(task, [*before[:-1], [*before[-1], wrong]]).heard
            if len(heard) > place and heard[place].error and value in heard[place].content:
                yield f"{name(task)}: the answer to a wrong {key} of {call.name} contains the right one"


def _shows(text: str, value: str) -> bool:
    """Whether ``text`` contains ``value``, but not as a part of a longer word or number."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _rivals(subject: Subject) -> Mapping[tuple[str, str], set[str]]:
    """The right values of all tasks by tool and argument."""
    rivals: dict[tuple[str, str], set[str]] = defaultdict(set)
    for task in subject.tasks:
        reference = subject.environment.reference(task)
        for turn, row, key, value in _values(reference):
            rivals[reference[turn][row].name, key].add(value)
    return rivals


def _tells(text: str, value: str, rivals: Collection[str]) -> bool:
    """Whether ``text`` contains ``value``, and not among others from which the agent must choose."""
    fields = observed(text)
    times = Counter(key for key, _ in fields)
    told = any(_shows(str(field), value) and times[key] == 1 for key, field in fields)
    return told and not any(_shows(text, rival) for rival in rivals if rival not in value)


def _shown(subject: Subject, task: Task) -> list[tuple[str, str]]:
    """Texts that an agent can read without knowing a value, each with its call: answers of tools without required arguments, and
    files that these answers or the instruction name.

    A file may hold JSON, but JSON from the other tools is a record.
    """
    idle = {subject.known.terminal, *subject.known.changing}
    reading = [one for tool in subject.tools if (one := tool["function"])["name"] not in idle]
    required = {one["name"]: tool_schema(one).flat()["required"] for one in reading}
    listed = _answers(subject, task, [ToolCall(tool) for tool, keys in required.items() if not keys])
    names = [path for text in (*task.turns, *(text for _, text in listed)) for path in PATH.findall(text)]
    openers = [
        (tool, keys[0])
        for tool, keys in required.items()
        if len(keys) == 1 and OPENS.search(f"{tool} {keys[0]}".lower())
    ]
    opened = [ToolCall(tool, {key: path}) for path in dict.fromkeys(names) for tool, key in openers]
    plain = [(call, text) for call, text in listed if not text.lstrip().startswith(("{", "["))]
    return [*plain, *_answers(subject, task, opened)]


def _answers(subject: Subject, task: Task, calls: Sequence[ToolCall]) -> list[tuple[str, str]]:
    """The calls that the environment accepts in the first turn, as text, each with its answer."""
    heard = subject.play(task, [calls[:MOST_CALLS]]).heard[1:]
    return [
        (f"{call.name}({', '.join(map(str, call.arguments.values()))})", answer.content)
        for call, answer in zip(calls, heard, strict=False)
        if answer.role == "tool" and not answer.error
    ]


def _values(reference: list[list[ToolCall]]) -> Iterator[tuple[int, int, str, str]]:
    """Turn, call, argument and value (as text) of all values to look for."""
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
