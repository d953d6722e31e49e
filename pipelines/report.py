"""Stage `report`: one summary of the whole run, from its files. Writes report/index.html, summary.json, curve.csv, charts.

Logs the pipeline's run to MLflow, makes the stages' runs its children, logs the weakest trajectories as traces, and
challenges for the alias `champion`.
"""

from dataclasses import asdict
from typing import Any

from coevolve.core.hashing import content_hash, policy_hash
from coevolve.core.io import read_jsonl, read_tasks, write_json, write_text
from coevolve.core.params import Params
from coevolve.core.paths import Paths
from coevolve.core.records import Signal, Trajectory
from coevolve.core.stage import run, seconds
from coevolve.core.trajectories import read_trajectories
from coevolve.stages.evaluate import OUTCOMES
from coevolve.stages.report.champion import scores
from coevolve.stages.report.page.panels import draw
from coevolve.stages.report.page.render import render
from coevolve.stages.report.page.view import gather, groups
from coevolve.stages.report.summary import curve, flat, summarize, table, weakest
from coevolve.tracking.run import start


def main(params: Params) -> None:
    ts = [one.t for one in params.iterations]
    policies = [policy_hash(Paths.policy(t)) for t in (*ts, ts[-1] + 1)]
    summary = {"run": content_hash([params.model_dump(by_alias=True), policies]), **summarize(params)}
    reader: list[dict[str, Any]] = []
    weak: list[Trajectory] = []
    for t in ts:
        played = read_trajectories(Paths.trajectories(t))
        tasks, signals = read_tasks(Paths.tasks(t)), read_jsonl(Paths.signals(t), Signal)
        reader += groups(played, tasks, signals, params.report.traces)
        weak += weakest(played, params.report.traces)
    view = {**gather(summary, seconds()), "groups": reader}
    charts = draw(view)
    write_json(Paths.report / "summary.json", summary)
    files = {
        "curve.csv": curve(summary),
        "table.txt": table(summary) + "\n",
        "index.html": render(view, charts),
        **{f"{name}.svg": chart for name, chart in charts.items()},
    }
    for name, text in files.items():
        write_text(Paths.report / name, text)
    with start(params.tracking, "pipeline", {"coevolve.run": summary["run"]}) as pipeline:
        pipeline.params(params.model_dump(by_alias=True))
        pipeline.dataset(Paths.tasks(ts[-1] + 1), "result")
        pipeline.metrics(flat(summary))
        for name in ("summary.json", *files):
            pipeline.artifact(Paths.report / name)
        for key in (*(f"train/{t}" for t in ts), *(f"evaluate/{t}" for t in (*ts, ts[-1] + 1))):
            pipeline.child(key)
        for trajectory in weak:
            pipeline.trace(asdict(trajectory))
        holder, panel = summary["champion"]["policy"], params.report.panel
        gate = {
            "panel": panel,
            "scores": scores(Paths.evaluation(holder) / OUTCOMES, panel),
            "outcomes": OUTCOMES,
            "config": dict(params.evaluate),
            "max_regressions": params.report.max_regressions,
            "seed": params.seed,
        }
        pipeline.challenge(policies[holder], gate)


if __name__ == "__main__":
    run(main, __doc__)
