"""The initial tasks of a run: the first tasks of a training split, and the frozen panels of the environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.stages.tasks.config import Tasks


@dataclass(frozen=True)
class Start:
    """``seed`` is dataset 0. ``panels`` holds, by name, tasks that no dataset may contain. ``note`` says that the
    split has fewer tasks than asked for.
    """

    seed: Sequence[Task]
    panels: Mapping[str, Sequence[Task]]
    note: str = ""


def start(environment: Environment, config: Tasks, champion_panel: str) -> Start:
    """The initial tasks. ``champion_panel`` (`report.panel`) must be a panel of ``environment``."""
    if champion_panel not in environment.panels:
        raise CoevolveError(
            f"params.yaml: report.panel: {champion_panel!r} is not a panel of {environment.name}; "
            f"expected one of: {', '.join(environment.panels)}"
        )
    if config.split not in (splits := ("seed", *environment.more_splits)):
        raise CoevolveError(
            f"params.yaml: tasks.split: {config.split!r} is not a training split of {environment.name}; "
            f"expected one of: {', '.join(splits)}"
        )
    offered = environment.tasks(config.split)
    panels = {panel: environment.tasks(panel) for panel in environment.panels}
    return Start(offered[: config.seed_tasks], panels, _shortage(environment.name, config, len(offered)))


def _shortage(name: str, config: Tasks, offered: int) -> str:
    """A note if the split has fewer tasks than `tasks.seed_tasks`; empty if it has enough."""
    if offered >= config.seed_tasks:
        return ""
    return (
        f"tasks.seed_tasks is {config.seed_tasks}, but split {config.split} of {name} has {offered} tasks: all are used"
    )
