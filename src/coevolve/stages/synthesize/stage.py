"""Stage `synthesize`: chains that the environment accepted become candidate tasks.

Reads data/t/explorations.jsonl. Writes data/t/candidates.jsonl, and data/t/requests/synthesize with every request to an
endpoint, its reply and the cost.
"""

from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.progress import bar
from coevolve.core.records import Exploration
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.endpoint.spending import metered
from coevolve.environments.fingerprint import open_environment
from coevolve.stages.schema import Params
from coevolve.stages.synthesize.synthesizer import candidates_of, few_teach, wording


def main(params: Params, t: int) -> None:
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), environment.name)
    explorations = read_jsonl(Paths.explorations(t), Exploration)
    config, count = params.synthesize, params.candidates
    with (
        bar(count, f"synthesize {t}", "candidates") as progress,
        metered(params.endpoint, config.synthesizer == "endpoint", Paths.requests(t, "synthesize"), progress) as meter,
    ):
        candidates, broken = candidates_of(
            environment, tasks, explorations, config, count, params.seed, meter, progress.update
        )
    write_jsonl(Paths.candidates(t), candidates)
    figures, words = {"candidates": len(candidates), **meter.costs()}, wording(environment, config)
    notes = meter.lost() + broken + (words if words and few_teach(environment) else [])
    write_summary(StageSummary("synthesize", t, figures, columns=["candidates"], costs=list(figures), notes=notes))
    print(f"{Paths.candidates(t)}: {len(candidates)} candidates of {len(explorations)} explorations{meter}")
    for line in broken + words:
        print(line)
