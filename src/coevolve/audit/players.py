"""Players without skill. Their success shows how much an environment gives away.

Each turns a task into its calls, turn by turn, and the message after them; None if it cannot play the task.
"""

from collections.abc import Callable
from typing import Any

from coevolve.audit.subject import Calls, Subject
from coevolve.core.task import Task, ToolCall
from coevolve.environments.tool_schema import to_try, tool_schema

PRINTED = 20_000  # most characters of an answer that repeats everything

Play = tuple[Calls, str]


def end_at_once(subject: Subject, task: Task) -> Play | None:
    """Call the tool that ends every task, without arguments."""
    return _last(task, _end(subject)) if subject.known.terminal else None


def call_everything(subject: Subject, task: Task) -> Play:
    """Call every tool once, with arguments from references of other tasks or of the right type."""
    calls = []
    for function in _others(subject):
        own = [value for call in task.calls if call.name == function["name"] for value in call.arguments.values()]
        required = tool_schema(function).flat()["required"]
        calls.append(ToolCall(function["name"], {key: _value(subject, function, key, own) for key in required}))
    return _last(task, calls + _end(subject))


def echo_the_instruction(subject: Subject, task: Task) -> Play:
    """Repeat the instruction as the message, and as every text argument of the tool that ends the task."""
    words = " ".join(task.turns)
    return _last(task, _answer(subject, words), words)


def print_everything(subject: Subject, task: Task) -> Play | None:
    """Call every reading tool without required arguments, and answer with all results."""
    reading = [one for one in _others(subject) if one["name"] not in subject.known.changing]
    calls = [ToolCall(one["name"]) for one in reading if not tool_schema(one).flat()["required"]]
    heard = subject.play(task, *_last(task, calls)).heard[1:]
    text = "\n".join(answer.content for answer in heard if answer.role == "tool" and not answer.error)[:PRINTED]
    return _last(task, calls + _answer(subject, text), text) if text else None


def another_reference(subject: Subject, task: Task) -> Play:
    """Make the calls of another task's reference."""
    tasks = list(subject.tasks)
    return subject.environment.reference(tasks[tasks.index(task) - 1]), "done"


PLAYERS: tuple[Callable[[Subject, Task], Play | None], ...] = (
    *(end_at_once, call_everything, echo_the_instruction, another_reference, print_everything),
)


def _last(task: Task, calls: list[ToolCall], says: str = "done") -> Play:
    """``calls`` in the last turn."""
    return [*([] for _ in task.turns[1:]), calls], says


def _others(subject: Subject) -> list[dict[str, Any]]:
    """The tools that do not end the task."""
    return [one for tool in subject.tools if (one := tool["function"])["name"] != subject.known.terminal]


def _end(subject: Subject) -> list[ToolCall]:
    return [ToolCall(subject.known.terminal)] if subject.known.terminal else []


def _answer(subject: Subject, words: str) -> list[ToolCall]:
    """The call that ends every task, with ``words`` as each of its text arguments."""
    for function in (tool["function"] for tool in subject.tools):
        if function["name"] == subject.known.terminal:
            schema = tool_schema(function)
            parts = schema.flat()["properties"].items()
            return [ToolCall(function["name"], {key: words for key, part in parts if schema.fitting([words], part)})]
    return []


def _value(subject: Subject, function: dict[str, Any], key: str, own: list[Any]) -> Any:
    """A value for the argument ``key``, none of the task's ``own``: where each world has ids of its own, these would solve it."""
    schema = tool_schema(function)
    part = schema.flat()["properties"].get(key, True)
    known = [value for value in subject.known.fitting(function["name"], key) if value not in own]
    values = [*known, *to_try(schema.flat(part)), "x", [], {}]
    return next(iter(schema.fitting(values, part)), "x")
