"""Stage `watch`: check iteration t with watchdogs before the next iteration trains on its tasks. Writes data/t/watch.json.

The pipeline stops here if an indicator passes a critical limit of section `watch` of params.yaml.
"""

from coevolve.core.attempts import read_visits
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_json, read_jsonl, read_jsonl_objects, read_tasks, write_json
from coevolve.core.paths import Paths
from coevolve.core.records import Verdict
from coevolve.core.stage_summary import write_summary
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.schema import Params
from coevolve.stages.watch.refused import notes as kinds_refused
from coevolve.stages.watch.refused import refused, share
from coevolve.stages.watch.watchdogs import (
    STEP_KEYS,
    WATCHED_STAGES,
    calls_by_group,
    foreign,
    indicators,
    measure,
    never_counted,
    summary,
    unfinished,
)


def main(params: Params, t: int) -> None:
    trajectories = read_trajectories(Paths.trajectories(t))
    tasks, visits = read_tasks(Paths.tasks(t)), read_visits(Paths.attempts(t + 1))
    environment = open_environment(params.environment)
    by_id = {task.task_id: task for task in tasks}
    kind_of = {task.task_id: environment.category(task) for task in tasks}
    kinds = refused(trajectories, by_id, kind_of, visits)
    values = measure(
        calls_by_group(trajectories),
        [trajectory.stop_reason for trajectory in trajectories],
        len(environment.tools()),
        [value for _, value in read_jsonl_objects(Paths.data(t) / "train_metrics.jsonl", STEP_KEYS)],
        [visit for visit in visits if visit.size],
        t,
        tasks,
        read_tasks(Paths.verified(t) / "accepted.jsonl"),
        read_jsonl(Paths.verified(t) / "verdicts.jsonl", Verdict),
        {
            name: value
            for stage in WATCHED_STAGES
            for name, value in read_json(Paths.summary(t, stage))["figures"].items()
        },
    )
    unread = sum(len(trajectory.unread) for trajectory in trajectories)
    replies = sum(len(trajectory.tokens) for trajectory in trajectories)
    values |= {"refused": share(kinds), "unreadable": unread / replies if replies else None}
    generator = params.explore.guidance == "generator"
    measured = indicators(values, params.watch, foreign(params.by_pairs, params.pairs.hard > 0, generator))
    write_json(Paths.watch(t), {indicator.name: indicator.as_dict() for indicator in measured})
    notes = [
        *unfinished(trajectories),
        *never_counted(visits, tasks),
        *kinds_refused(kinds, trajectories, by_id, kind_of),
    ]
    write_summary(summary(t, measured, notes))
    past = [indicator for indicator in measured if indicator.past]
    for line in [*(f"{indicator.state}: {indicator}" for indicator in past), *notes]:
        print(line)
    print(f"{Paths.watch(t)}: {len(measured) - len(past)} of {len(measured)} indicators within their limits")
    if critical := next((indicator for indicator in past if indicator.state == "critical"), None):
        raise CoevolveError(
            f"iteration {t}: {critical}; the pipeline stops before it trains on this. Read data/{t}, then fix the cause, "
            f"or change watch.{critical.name}.critical in params.yaml"
        )
