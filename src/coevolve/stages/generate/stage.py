"""Stage `generate`: the generator learns from the outcomes of its generations and writes variations of the tasks of iteration t.

Idle unless `generate.model` names a generator. Reads all earlier generations, data/t/generations.jsonl, and the agent's attempts
at the tasks, data/next/attempts.jsonl. Writes generators/next and data/t/specs.jsonl, which explore tries. After a kill, a new
run continues from the last checkpoint of the update.
"""

import shutil
from collections import Counter
from functools import partial
from statistics import fmean

from coevolve.core.arithmetic import in_effect
from coevolve.core.attempts import read_attempts
from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.records import Generation
from coevolve.core.scratch import claim, scratch
from coevolve.core.stage_seconds import note_step
from coevolve.core.stage_summary import SPEC_ENTROPY, SPEC_SAMPLE, SPEC_VALID, StageSummary, write_summary
from coevolve.core.statistics import evenness
from coevolve.environments.fingerprint import open_environment
from coevolve.policies import helper_model
from coevolve.policies.loading import playing
from coevolve.rollout import Limits
from coevolve.stages.generate.iteration import Generated, Plan, generate
from coevolve.stages.generate.rewards import effective
from coevolve.stages.generator.tiny_generator import IDLE, NONE
from coevolve.stages.schema import Params
from coevolve.stages.train.learner import Shared


def main(params: Params, t: int) -> None:
    config = params.generate
    if config.model == NONE:
        write_jsonl(Paths.specs(t), [])
        helper_model.write(Paths.generator(t + 1), Paths.generator(t))
        write_summary(StageSummary("generate", t, {}))
        print(IDLE)
        return
    environment = open_environment(params.environment)
    with claim(scratch() / "generate" / scratch_key("generate", t, params)) as folder:
        # two models play one after the other, and vLLM would not release its memory between them
        acting = params.policy.model_copy(update={"backend": "transformers"})
        plan = Plan(
            seed=params.seed,
            t=t,
            tasks=read_tasks(Paths.tasks(t), environment.name, least=1),
            attempts=read_attempts(Paths.attempts(t + 1)),
            generations=read_jsonl(Paths.generations(t), Generation),
            count=params.explore.explorations,
            folder=Paths.generator(t),
            first=Paths.generator(0),
            scratch=folder,
            environment=environment,
            limits=Limits.of(params.policy),
            open=partial(playing, config=acting, temperature=config.temperature),
            shared=Shared(params.train, params.policy, params.launch),
        )
        generated = generate(plan, config)
        write_jsonl(Paths.specs(t), generated.new)
        helper_model.write(Paths.generator(t + 1), Paths.generator(t), generated.learned)
        write_summary(summary(t, generated, in_effect().name))
        for figures in generated.figures:
            note_step(f"generate/{t}", int(figures["step"]), figures)
        shutil.rmtree(folder)


def summary(t: int, generated: Generated, arithmetic: str) -> StageSummary:
    """The summary of iteration ``t``: the new generations, and the update before them."""
    specs = [(tuple(generation.goals), generation.ask) for generation in generated.new if generation.goals is not None]
    used = Counter(goal for goals, _ in specs for goal in goals)
    figures: dict[str, int | float | None] = {
        "generations": len(generated.new),
        SPEC_VALID: len(specs) / len(generated.new) if generated.new else None,
        SPEC_ENTROPY: evenness(used, generated.tools),
        "distinct specs": len(set(specs)) / len(specs) if specs else None,
        "goals of a spec": fmean([len(goals) for goals, _ in specs] or [0]),
        "generations learned from": len(generated.weights),
        SPEC_SAMPLE: effective(generated.weights),
        "divergence of specs": generated.figures[-1]["spec_kl"] if generated.figures else None,
        "generator steps": len(generated.figures),
    }
    notes = [f"the generator did not learn: {generated.reason}"] if generated.reason and t else []
    return StageSummary("generate", t, figures, [], ["generations"], notes, arithmetic)
