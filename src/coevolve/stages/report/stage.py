"""Stage `report`: summarize the whole run from its files.

Writes to report/: index.html, summary.json, table.txt, charts. DVC shows metrics.json, curves/ and training.csv, and its page of
plots loads vega.js. Copies the best policy to policies/champion, a path that is the same in every run.
"""

import shutil

from coevolve.core.champion import ChampionRule
from coevolve.core.paths import Paths
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
    if params.trains:
        shutil.rmtree(Paths.champion, ignore_errors=True)
        shutil.copytree(Paths.policy(summary.champion.policy), Paths.champion)
