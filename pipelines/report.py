"""Stage `report`: one summary of the whole run, from its files. Writes report/summary.json, curve.csv and plots.

Logs the pipeline's run to MLflow, makes the stages' runs its children, logs the weakest trajectories as traces, and
moves the alias `champion`.
"""

from dataclasses import asdict

from coevolve.files import Paths, read_trajectories, write_json, write_text
from coevolve.params import Params
from coevolve.report import curve, flat, plots, summarize, table, weakest
from coevolve.stage import run
from coevolve.tracking import policy_hash, start


def main(params: Params) -> None:
    summary = summarize(params)
    write_json(Paths.report / "summary.json", summary)
    write_text(Paths.report / "curve.csv", curve(summary))
    write_text(Paths.report / "table.txt", table(summary) + "\n")
    plots(summary, Paths.report)
    ts = [one.t for one in params.iterations]
    with start(params.tracking, "pipeline") as pipeline:
        pipeline.params(params.model_dump(by_alias=True))
        pipeline.dataset(Paths.tasks(ts[-1] + 1), "result")
        pipeline.metrics(flat(summary))
        for name in ("summary.json", "curve.csv", "table.txt", "curve.svg", "growth.svg", "funnel.svg"):
            pipeline.artifact(Paths.report / name)
        for key in (*(f"train/{t}" for t in ts), *(f"evaluate/{t}" for t in (*ts, ts[-1] + 1))):
            pipeline.child(key)
        for t in ts:
            for trajectory in weakest(read_trajectories(Paths.trajectories(t)), params.report.traces):
                pipeline.trace(asdict(trajectory))
        pipeline.champion(policy_hash(Paths.policy(summary["champion"]["policy"])))


if __name__ == "__main__":
    run(main, __doc__)
