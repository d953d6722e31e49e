"""Find the known task of a rollout by its task id, or else by its first request, if only one task begins with it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from coevolve.core.task import Task
from coevolve.readers.rollouts.flat_text import request_of
from coevolve.readers.rollouts.rollout_row import RolloutRow

UNKNOWN = "no task id, and no known task begins with its first request"
SEVERAL = "no task id, and several known tasks begin with its first request"


class TaskMatch:
    """Finds the task of a rollout among known ``tasks``."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._ids = {task.task_id for task in tasks}
        self._tasks: Mapping[str, list[str]] = defaultdict(list)
        self._last_lines: Mapping[str, set[str]] = defaultdict(set)  # last line of a request → requests
        for task in tasks:
            request = task.turns[0].strip()
            self._tasks[request].append(task.task_id)
            self._last_lines[request.splitlines()[-1] if request else ""].add(request)
        self._prompts: dict[str, list[str]] = {}

    def __call__(self, row: RolloutRow) -> str:
        """The task's id, or UNKNOWN or SEVERAL, the reason why there is none."""
        if (name := next((name for name in row.names if name in self._ids), None)) is not None:
            return name
        found = self._begun(row)
        return found[0] if len(found) == 1 else SEVERAL if found else UNKNOWN

    def _begun(self, row: RolloutRow) -> list[str]:
        """The tasks whose first request is the rollout's."""
        if row.prompt is None:
            first = next((message["content"] for message in row.messages if message.get("role") == "user"), "")
            return self._tasks.get(first.strip(), [])
        if row.prompt not in self._prompts:
            self._prompts[row.prompt] = self._ending(request_of(row.prompt))
        return self._prompts[row.prompt]

    def _ending(self, text: str) -> list[str]:
        """The tasks whose first request is the last lines of ``text``. A role's name may precede the request."""
        lines = text.splitlines()
        requests = self._last_lines.get(lines[-1], set()) if lines else set()
        whole = [request for request in requests if text == request or text.endswith(f"\n{request}")]
        return sorted(task_id for request in whole for task_id in self._tasks[request])
