"""Stage `pairs`: policies/t plays the tasks of iteration t, and the stage pairs its failures with successes.

With `pairs.hard` above 0 the failure agent plays too: it learns from pairs of failures, and its hard negatives join the agent's
failures.

Writes failures/next (the failure agent) and data/t/pairs with pairs.jsonl, rehearsals.parquet, references.parquet and
hard.parquet. All are empty for a learner that plays by itself. After a kill, a new run continues after the last complete step.
"""

import shutil
from functools import partial

from coevolve.core.arithmetic import in_effect
from coevolve.core.attempts import read_visits
from coevolve.core.io import read_tasks
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_summary import FAILURE_IDLE, StageSummary
from coevolve.environments.fingerprint import open_environment
from coevolve.policies.loading import playing, prepare_players
from coevolve.rollout import Limits
from coevolve.stages.pairs.failure_agent import PairsContext, begun
from coevolve.stages.pairs.make import Made, make, write
from coevolve.stages.pairs.pairs_summary import THEIRS
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.schema import Params
from coevolve.stages.train.learner import Shared
from coevolve.tracking.journal import FAILURE, start
from coevolve.tracking.run_names import run_key


def main(params: Params, t: int) -> None:
    if not params.by_pairs:
        write(t)
        return
    prepare_players()
    environment = open_environment(params.environment)
    tasks = read_tasks(Paths.tasks(t), params.environment, least=1)
    before = read_visits(Paths.attempts(t))
    shared = Shared(params.train, params.policy, params.launch)
    with claim(scratch() / "pairs" / scratch_key("pairs", t, params)) as folder:
        plan = Rehearsal(params.seed, t, tasks, before, folder)
        play = partial(playing, config=params.policy, temperature=params.train.temperature)
        context = PairsContext(environment, plan, Limits.of(params.policy), play)
        config = params.pairs.failure_agent
        first, agent, start_folder = Paths.policy(0), Paths.policy(t), folder / "failure agent"
        rival = begun(Paths.failure(t), first, agent, config, shared, start_folder) if params.pairs.hard else None
        result = make(Paths.policy(t), context, params.train, params.pairs, rival)
        _track(params, t, result, write(t, result, in_effect().name))
        shutil.rmtree(folder)


def _track(params: Params, t: int, result: Made, summary: StageSummary) -> None:
    """Log the pairs as a run, and the failure agent as a version of its registered model if it has learned."""
    section = params.pairs.model_dump()
    section |= {f"failure_agent.{name}": value for name, value in section.pop("failure_agent").items()}
    figures = {name: value for name, value in summary.figures.items() if value is not None}
    with start(params.tracking, run_key("pairs", t), {}) as run:
        run.params({"seed": params.seed, "iteration": t, "environment": params.environment, **section})
        run.dataset(Paths.tasks(t), "rehearsal")
        run.dataset(Paths.pairs(t) / "pairs.jsonl", "pairs")
        run.metrics(figures, t)
        if steps := result.evolved.figures if result.evolved else ():
            for row in steps:
                run.metrics({f"failure agent/{name}": value for name, value in row.items()}, int(row["step"]))
            of_agent = {name: figures[name] for name in (THEIRS, FAILURE_IDLE) if name in figures}
            run.model(t + 1, Paths.failure(t + 1), of_agent, FAILURE)
