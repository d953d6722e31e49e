"""Stage `tasks`: the seed tasks of the loop, and the frozen panels of the environment.

Writes data/environment.json, which identifies the environment, data/0/tasks.jsonl, data/panels/NAME.jsonl, the empty
files data/0/attempts.jsonl and data/0/generations.jsonl, and failures/0, the untrained failure agent.
"""

from collections.abc import Sequence
from pathlib import Path

from coevolve.core.io import read_tasks, write_json, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.stage_summary import TASKS, StageSummary, write_summary
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import is_own, make
from coevolve.policies import helper_model
from coevolve.stages.schema import Params
from coevolve.stages.tasks.config import Tasks


def start(environment: Environment, config: Tasks, champion_panel: str | None) -> tuple[Sequence[Task], list[str]]:
    """Dataset 0, and a note if the split has fewer tasks than asked for.

    ``champion_panel`` (`report.panel`) must be a panel of ``environment``, unless it is None.
    """
    if champion_panel is not None:
        environment.check_named("report.panel", champion_panel, panel=True)
    environment.check_named("tasks.split", config.split)
    if config.known is None:
        offered, source = environment.tasks(config.split), f"split {config.split} of {environment.name}"
    else:
        offered, source = read_tasks(Path(config.known), environment.name, least=1), config.known
    shortage = f"tasks.seed_tasks is {config.seed_tasks}, but {source} has {len(offered)} tasks: all are used"
    return offered[: config.seed_tasks], [shortage] * (len(offered) < config.seed_tasks)


def main(params: Params) -> None:
    environment = make(params.environment)
    seed, notes = start(environment, params.tasks, params.report.panel if params.trains else None)
    if params.train.replay.split is not None:  # stage `replay` would say it after the warm start
        environment.check_named("train.replay.split", params.train.replay.split)
    panels = {panel: environment.tasks(panel) for panel in environment.panels}
    panels |= {name: read_tasks(Path(file), environment.name, least=1) for name, file in params.tasks.panels.items()}
    write_json(Paths.environment, identity(environment))
    write_jsonl(Paths.tasks(0), seed)
    write_jsonl(Paths.attempts(0), [])
    write_jsonl(Paths.generations(0), [])
    helper_model.start(Paths.failure(0), on=Paths.policy(0))
    write_summary(StageSummary("tasks", 0, {TASKS: len(seed)}, columns=[TASKS], notes=notes))
    print("\n".join([f"{Paths.tasks(0)}: {len(seed)} tasks", *(f"note: {note}" for note in notes)]))
    if (
        params.trains
        and params.base.model == "tiny"
        and params.warm.steps == 0
        and not is_own(params.environment)
        and params.environment != "miniworld"
    ):
        print(
            f"note: the embedded policy knows only miniworld's words and will solve almost nothing in {params.environment}; "
            "set warm.steps to 100, so that it learns the tools from your references, or set base.model to a pretrained model "
            "(for a laptop: `coevolve profile apply smollm2-135m`)"
        )
    for panel, tasks in panels.items():
        write_jsonl(Paths.panel(panel), tasks)
        print(f"{Paths.panel(panel)}: {len(tasks)} tasks")
