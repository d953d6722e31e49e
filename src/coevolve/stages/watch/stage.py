"""Stage `watch`: watchdogs over iteration t, before the next one trains on what it made. Writes data/t/watch.json.

Past a critical limit of the section `watch` of params.yaml the pipeline stops here.
"""

from itertools import groupby

from coevolve.core.attempts import read_attempts
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_json, read_jsonl, read_jsonl_objects, read_tasks, write_json
from coevolve.core.paths import Paths
from coevolve.core.records import Verdict
from coevolve.core.stage_summary import write_summary
from coevolve.core.trajectories import read_trajectories
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.params import Params
from coevolve.stages.watch.watchdogs import SAID, STEP, indicators, measure, summary


def main(params: Params, t: int) -> None:
    trajectories = read_trajectories(Paths.trajectories(t))
    groups = groupby(trajectories, key=lambda one: (one.step, one.group))
    values = measure(
        ([one.calls for one in group] for _, group in groups),
        [one.stop_reason for one in trajectories],
        len(open_environment(params.environment).tools()),
        [value for _, value in read_jsonl_objects(Paths.data(t) / "train_metrics.jsonl", STEP)],
        read_attempts(Paths.attempts(t + 1)),
        t,
        read_tasks(Paths.tasks(t)),
        read_tasks(Paths.verified(t) / "accepted.jsonl"),
        read_jsonl(Paths.verified(t) / "verdicts.jsonl", Verdict),
        {name: value for stage in SAID for name, value in read_json(Paths.summary(t, stage))["figures"].items()},
    )
    found = indicators(values, params.watch)
    write_json(Paths.watch(t), {one.name: one.as_dict() for one in found})
    write_summary(summary(t, found))
    past = [one for one in found if one.past]
    for one in past:
        print(f"{one.state}: {one}")
    print(f"{Paths.watch(t)}: {len(found) - len(past)} of {len(found)} indicators within their limits")
    if critical := next((one for one in past if one.state == "critical"), None):
        raise CoevolveError(
            f"iteration {t}: {critical}; the pipeline stops before it trains on this. Read data/{t}, then change what made "
            f"it, or watch.{critical.name}.critical in params.yaml"
        )
