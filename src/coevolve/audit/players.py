"""Players without skill. Their success shows how much an environment gives away.

Each player turns a task into its calls, turn by turn, and the message after them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coevolve.audit.subject import Calls, Subject
from coevolve.core.hashing import content_hash
from coevolve.core.task import Task, ToolCall
from coevolve.environments.tool_schema import ToolSchema, to_try, tool_schema

REPEATED = 8  # repetitions of a call
PRINTED = 20_000  # most characters of an answer that repeats everything


@dataclass(frozen=True, slots=True)
class Play:
    calls: Calls
    says: str = "done"


def nothing(subject: Subject, task: Task) -> Play:
    return Play([[] for _ in task.turns])


def end_at_once(subject: Subject, task: Task) -> Play | None:
    """Call the tool that ends every task, without arguments. None if there is no such tool."""
    terminal = subject.known.terminal
    return Play(_last(task, [ToolCall(terminal)])) if terminal else None


def repeat(subject: Subject, task: Task) -> Play:
    """Repeat the most frequent call of other tasks' references, and then end the task."""
    others = [other for other in subject.some["seed"] if other.task_id != task.task_id]
    calls = [call for other in others for call in other.calls if call.name != subject.known.terminal]
    calls = calls or [call for other in others for call in other.calls] or [ToolCall("")]
    counted = Counter(content_hash([call.name, call.arguments]) for call in calls)
    key = counted.most_common(1)[0][0]
    most = next(call for call in calls if content_hash([call.name, call.arguments]) == key)
    return Play(_last(task, [most] * REPEATED + _end(subject)))


def everything(subject: Subject, task: Task) -> Play:
    """Call every tool once, with arguments from a reference or of the right type."""
    calls = []
    for tool in subject.tools:
        name, schema = tool["function"]["name"], tool_schema(tool["function"])
        if name != subject.known.terminal:
            required = schema.flat()["required"]
            calls.append(ToolCall(name, {key: _value(subject, name, key, schema) for key in required}))
    return Play(_last(task, calls + _end(subject)))


def echo(subject: Subject, task: Task) -> Play:
    """Repeat the instruction as the message, and as every text argument of the tool that ends the task."""
    words = " ".join(task.turns)
    return Play(_last(task, _answer(subject, words)), words)


def print_everything(subject: Subject, task: Task) -> Play | None:
    """Call every reading tool without required arguments, and answer with all results. None if there is no such tool."""
    functions = [tool["function"] for tool in subject.tools]
    functions = [one for one in functions if not tool_schema(one).flat()["required"]]
    idle = {subject.known.terminal, *subject.known.changing}
    calls = [ToolCall(function["name"]) for function in functions if function["name"] not in idle]
    heard = subject.play(task, _last(task, calls)).heard[1:]
    text = "\n".join(answer.content for answer in heard if answer.role == "tool" and not answer.error)[:PRINTED]
    return Play(_last(task, calls + _answer(subject, text)), text) if text else None


def another(subject: Subject, task: Task) -> Play:
    """Make the calls of another task's reference from the same split."""
    peers = subject.some[task.split] if task.split in subject.some else subject.some["seed"]
    ids = [one.task_id for one in peers]
    other = peers[(ids.index(task.task_id) + 1) % len(peers)] if task.task_id in ids else peers[0]
    return Play(subject.environment.reference(other))


PLAYERS: dict[str, Callable[[Subject, Task], Play | None]] = {
    "nothing": nothing,
    "end at once": end_at_once,
    "repeat one call": repeat,
    "call everything": everything,
    "echo the instruction": echo,
    "another task's reference": another,
    "print everything": print_everything,
}


def _last(task: Task, calls: list[ToolCall]) -> Calls:
    """``calls`` in the last turn."""
    return [*([] for _ in task.turns[1:]), calls]


def _answer(subject: Subject, words: str) -> list[ToolCall]:
    """The call that ends every task, with ``words`` as each of its text arguments."""
    terminal = next(
        (tool["function"] for tool in subject.tools if tool["function"]["name"] == subject.known.terminal), None
    )
    if terminal is None:
        return []
    schema = tool_schema(terminal)
    properties = schema.flat()["properties"]
    return [
        ToolCall(terminal["name"], {key: words for key, part in properties.items() if schema.fitting([words], part)})
    ]


def _end(subject: Subject) -> list[ToolCall]:
    return [ToolCall(subject.known.terminal)] if subject.known.terminal else []


def _value(subject: Subject, tool: str, key: str, schema: ToolSchema) -> Any:
    part = schema.flat()["properties"].get(key, True)
    values = [*subject.known.fitting(tool, key), *to_try(schema.flat(part)), "x", [], {}]
    return next(iter(schema.fitting(values, part)), "x")
