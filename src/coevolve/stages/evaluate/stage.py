"""Stage `evaluate`: policies/t on the frozen panels. Writes evaluations/t/outcomes.jsonl and metrics.json, and its summary.

Logs a run to MLflow and registers the policy as a version of `coevolve-policy`. Batches of episodes are kept in
scratch/evaluate: run again after a kill, it plays the rest.
"""

import shutil
import time
from dataclasses import asdict, replace
from functools import partial

from coevolve.core.arithmetic import in_effect
from coevolve.core.io import read_tasks, write_json, write_jsonl
from coevolve.core.outcomes import OUTCOMES, metrics
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_summary import write_summary
from coevolve.core.workers import engine
from coevolve.environments.fingerprint import fingerprint_of, open_environment
from coevolve.policies.loading import playing
from coevolve.rollout import Limits
from coevolve.stages.evaluate.evaluation import by_environment, evaluate, played, summary
from coevolve.stages.params import Params
from coevolve.tracking.journal import start


def main(params: Params, t: int) -> None:
    config, folder = params.evaluate, Paths.evaluation(t)
    environment = open_environment(params.environment)
    names = played(config, environment.panels, params.environment)
    panels = {name: read_tasks(Paths.panel(name), params.environment) for name in names}
    limits = Limits.of(params.policy)
    with (
        claim(scratch() / "evaluate" / scratch_key("evaluate", t, params)) as kept,
        start(params.tracking, f"evaluate/{t}") as run,
    ):
        whole = not kept.exists()
        run.params({"seed": params.seed, "policy": Paths.policy(t), "environment": params.environment, **dict(config)})
        for name in panels:
            run.dataset(Paths.panel(name), "evaluation")
        with (
            engine(params.compute, partial(fingerprint_of, params.environment)) as workers,
            playing(Paths.policy(t), params.policy, config.temperature, workers) as policy,
        ):
            began = time.monotonic()
            outcomes = evaluate(policy, environment, panels, limits, config, params.seed, kept)
            seconds = time.monotonic() - began
        solved = sum(one.success for one in outcomes)
        outcomes += by_environment(outcomes, environment, panels)
        found = metrics(outcomes, config, params.seed)
        write_jsonl(folder / OUTCOMES, outcomes)
        write_json(folder / "metrics.json", {panel: asdict(one) for panel, one in found.items()})
        wanted = sum(len(tasks[: config.tasks]) for tasks in panels.values()) * config.samples
        # of panels that are whole: those of one environment are parts of these
        once = {name: one for name, one in found.items() if name in panels}
        write_summary(replace(summary(t, once, wanted), arithmetic=in_effect().name))
        figures = {
            f"{panel}/{key}": getattr(one, key) for panel, one in found.items() for key in ("success", "score", "turns")
        }
        costs = {f"{panel}/tokens_per_success": one.tokens_per_success for panel, one in found.items()}
        known = {name: cost for name, cost in costs.items() if cost is not None}
        known |= {
            f"{panel}/{name.replace('@', '_at_').replace('^', '_every_')}": value  # MLflow takes neither sign
            for panel, one in found.items()
            for name, value in one.several.items()
        }
        if whole and solved:
            known["seconds_per_success"] = seconds / solved  # in no file: the same run writes the same bytes
        run.metrics({**figures, **known}, t)
        run.artifact(folder / OUTCOMES)
        run.model(t, Paths.policy(t), {**{panel: one.success for panel, one in found.items()}, **known})
        shutil.rmtree(kept, ignore_errors=True)
