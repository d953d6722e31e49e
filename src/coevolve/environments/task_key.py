"""A task as the key of a cache."""

from coevolve.core.task import Task


class TaskKey:
    """Hashes by the task's id, and compares its content: candidates and drafts may share an id."""

    __slots__ = ("task",)

    def __init__(self, task: Task) -> None:
        self.task = task

    def __hash__(self) -> int:
        return hash(self.task.task_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskKey) and (
            other.task is self.task
            or (other.task.world == self.task.world and other.task.reference == self.task.reference)
        )
