"""What a candidate must not repeat: training tasks, candidates accepted before it, and the tasks of the frozen panels."""

from collections.abc import Mapping, Sequence

from coevolve.core.hashing import content_hash
from coevolve.core.similarity import Index
from coevolve.core.task import Task


class Library:
    """The ``known`` tasks and the ``panels``; instructions of a similarity from ``near_duplicate`` on are near-duplicates."""

    def __init__(self, known: Sequence[Task], panels: Mapping[str, Sequence[Task]], near_duplicate: float) -> None:
        self._ids: dict[str, str] = {}
        self._solutions: dict[str, str] = {}
        self._texts = Index(near_duplicate)
        for task in known:
            self.add(task, "known")
        self._panel_of: dict[str, str] = {}
        self._panel_solutions: dict[str, str] = {}
        self._panel_texts = Index(near_duplicate)
        for name, tasks in panels.items():
            for task in tasks:
                self._panel_of[task.task_id] = name
                self._panel_solutions[_solution(task)] = name
                self._panel_texts.add(task.task_id, _text(task))

    def add(self, task: Task, kind: str) -> None:
        """``kind``: what to call it, should it be repeated."""
        self._ids[task.task_id] = self._solutions[_solution(task)] = kind
        self._texts.add(task.task_id, _text(task))

    def duplicate(self, task: Task) -> str | None:
        """The kind of the task that ``task`` is, or has the solution of."""
        return self._ids.get(task.task_id) or self._solutions.get(_solution(task))

    def nearest(self, task: Task) -> tuple[str, float] | None:
        """Id and similarity of the nearest near-duplicate."""
        return self._texts.nearest(_text(task))

    def panel(self, task: Task) -> str | None:
        """The panel that has a task of the same solution, or a near-duplicate."""
        near = self._panel_texts.nearest(_text(task))
        return self._panel_solutions.get(_solution(task)) or (self._panel_of[near[0]] if near else None)


def _text(task: Task) -> str:
    return "\n".join(task.turns)


def _solution(task: Task) -> str:
    """World and reference: tasks that differ in wording alone have one solution."""
    return content_hash([task.world, [[[call.name, call.arguments] for call in turn] for turn in task.reference]])
