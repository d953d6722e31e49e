"""Stage `tasks`: the seed tasks of the loop, and the frozen panels of the environment.

Writes data/environment.json, which identifies the environment, data/0/tasks.jsonl, data/panels/NAME.jsonl, the empty
files data/0/attempts.jsonl and data/0/generations.jsonl, and failures/0, the untrained failure agent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.stage_summary import TASKS, StageSummary, write_summary
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import is_own, make
from coevolve.policies import adapted
from coevolve.stages.schema import Params
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
    shortage = (
        f"tasks.seed_tasks is {config.seed_tasks}, but split {config.split} of {environment.name} has {len(offered)} tasks: "
        "all are used"
    )
    return Start(offered[: config.seed_tasks], panels, shortage if len(offered) < config.seed_tasks else "")


def main(params: Params) -> None:
    environment = make(params.environment)
    first = start(environment, params.tasks, params.report.panel)
    write_json(Paths.environment, identity(environment))
    write_jsonl(Paths.tasks(0), first.seed)
    write_jsonl(Paths.attempts(0), [])
    write_jsonl(Paths.generations(0), [])
    adapted.start(Paths.failure(0), on=Paths.policy(0))
    notes = [first.note] if first.note else []
    write_summary(StageSummary("tasks", 0, {TASKS: len(first.seed)}, columns=[TASKS], notes=notes))
    print(f"{Paths.tasks(0)}: {len(first.seed)} tasks")
    if first.note:
        print(f"note: {first.note}")
    if (
        params.base.model == "tiny"
        and params.warm.steps == 0
        and not is_own(params.environment)
        and params.environment != "miniworld"
    ):
        print(
            f"note: the embedded policy knows only miniworld's words and will solve almost nothing in {params.environment}; "
            "set warm.steps to 100, so that it learns the tools from your references, or set base.model to a pretrained model "
            "(for a laptop: `coevolve profile apply smollm2-135m`)"
        )
    for panel, tasks in first.panels.items():
        write_jsonl(Paths.panel(panel), tasks)
        print(f"{Paths.panel(panel)}: {len(tasks)} tasks")
