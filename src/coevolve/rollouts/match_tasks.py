"""Find the known task of a rollout by its task id. Without an id, the first request decides, if it is of one task only."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from coevolve.core.task import Task
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.flat_text import request_of
from coevolve.rollouts.rollout_row import RolloutRow

UNKNOWN = "no known task begins with its first request"
SEVERAL = "several known tasks begin with its first request"
UNLISTED = "its task id is not among the known tasks"


class TaskMatch:
    """Finds the task of a rollout among known ``tasks``."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._ids = {task.task_id: None for task in tasks}
        self._numbered = all(name.isdecimal() for name in self._ids)
        self._tasks: Mapping[str, list[str]] = defaultdict(list)
        self._last_lines: Mapping[str, set[str]] = defaultdict(set)  # last line of a request → requests
        for task in tasks:
            request = task.turns[0].strip()
            self._tasks[request].append(task.task_id)
            self._last_lines[request.splitlines()[-1] if request else ""].add(request)
        self._prompts: dict[str, list[str]] = {}

    def __call__(self, row: RolloutRow) -> str:
        """The task's id. A rollout without a known task is Unreadable.

        Unless the known ids are whole numbers, a whole number is a row of the trainer's data set. Then the request
        decides, as without an id.
        """
        missing = "no task id"
        if row.task_id is not None:
            if row.task_id in self._ids:
                return row.task_id
            if self._numbered or not row.task_id.isdecimal():
                raise Unreadable(
                    f"{UNLISTED} ({row.task_id[:40]!r}; a known id is {next(iter(self._ids), '')!r}, a task's task_id)"
                )
            missing = "its task id is a row number"
        if (name := next((name for name in row.names if name in self._ids), None)) is not None:
            return name
        if row.prompt is None:
            found = self._tasks.get(row.request, [])
        else:
            if row.prompt not in self._prompts:
                self._prompts[row.prompt] = self._ending(request_of(row.prompt))
            found = self._prompts[row.prompt]
        if len(found) != 1:
            raise Unreadable(f"{missing}, and {SEVERAL if found else UNKNOWN}")
        return found[0]

    def _ending(self, text: str) -> list[str]:
        """The tasks whose first request is the last lines of ``text``. A role's name may precede the request."""
        lines = text.splitlines()
        requests = self._last_lines.get(lines[-1], set()) if lines else set()
        whole = [request for request in requests if text == request or text.endswith(f"\n{request}")]
        return sorted(task_id for request in whole for task_id in self._tasks[request])
