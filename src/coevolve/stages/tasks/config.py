"""Section `tasks`: the initial tasks of the loop."""

from coevolve.core.section import Count, Section


class Tasks(Section):
    split: str = "seed"
    """Training split to start from; miniworld has seed (6 of 28 families) and broad (all)."""
    seed_tasks: Count = 64
    """Number of tasks to take from the start of the split, or all if it has fewer."""
    known: str | None = None
    """File of tasks that replaces the split."""
    panels: dict[str, str] = {}
    """Further files of evaluation tasks, by name: no new task may overlap one."""
