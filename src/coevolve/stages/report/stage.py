"""Stage `report`: summarize the whole run from its files.

Writes to report/: index.html, summary.json, metrics.json and curves/ (which DVC shows), table.txt, charts.

It logs the pipeline's run to MLflow, makes the stages' runs its children, and logs the weakest trajectories as traces. The last
dataset becomes records with links to the failures that its tasks grew from. If the run's best policy beats the champion, it takes
the alias `champion`.
"""

from dataclasses import asdict

from coevolve.core.hashing import policy_hash
from coevolve.core.paths import Paths
from coevolve.core.section import dotted
from coevolve.core.stage_seconds import seconds
from coevolve.stages.report.run_summary import run_hash, summarize
from coevolve.stages.report.tables import by_iteration, totals
from coevolve.stages.report.write import origins, write
from coevolve.stages.schema import Params, plain
from coevolve.tracking.champion import ChampionRule, gate
from coevolve.tracking.journal import start


def main(params: Params) -> None:
    last = params.iterations[-1].next
    name = run_hash(last)
    rule = ChampionRule(
        params.report.panel,
        params.report.max_regressions,
        params.evaluate.bootstrap,
        params.evaluate.confidence,
        params.seed,
    )
    summary = summarize(name, params.environment, params.iterations, rule, params.trains)
    files, weakest = write(summary, params.report.traces)
    if not params.trains:
        return
    with start(
        params.tracking, "pipeline", {"coevolve.run": summary.run, "coevolve.arithmetic": summary.arithmetic}
    ) as pipeline:
        pipeline.params(dotted(plain(params)))
        pipeline.dataset(Paths.tasks(summary.last), "result")
        pipeline.metrics(totals(summary))
        for t, figures in enumerate(by_iteration(summary, seconds())):
            pipeline.metrics(figures, t)
        for file in files:
            pipeline.artifact(file)
        for stage, t in dict.fromkeys((stage.stage, stage.iteration) for stage in summary.stages):
            pipeline.child(f"{stage}/{t}")
        for weak in weakest:
            pipeline.trace(asdict(weak.trajectory), weak.kinds)
        pipeline.records(Paths.tasks(summary.last), origins(weakest))
        holder = summary.champion.policy
        pipeline.challenge(asdict(gate(holder, policy_hash(Paths.policy(holder)), rule)))
