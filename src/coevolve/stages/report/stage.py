"""Stage `report`: summarize the whole run from its files.

Writes to report/: index.html, summary.json, table.txt, charts. DVC shows metrics.json, curves/ and training.csv, and its page of
plots loads vega.js.
"""

from coevolve.core.champion import ChampionRule
from coevolve.stages.report.run_summary import run_hash, summarize
from coevolve.stages.report.write import write
from coevolve.stages.schema import Params


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
    write(summary, params.report.traces)
