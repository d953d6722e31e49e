"""Stage `warm`: policies/base learns to act, by supervised learning on references or on a file of episodes.

Writes policies/0, a copy of policies/base if `warm.steps` is 0. Checkpoints are in scratch/warm: after a kill, a new run
continues from them. The finished policy stays there, for the next run with the same warm start.
"""

import shutil
from pathlib import Path

from coevolve.core.arithmetic import in_effect
from coevolve.core.hashing import content_hash, file_hash
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import once, scratch
from coevolve.core.seeding import derive_seed
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import open_environment
from coevolve.rollout import Limits
from coevolve.stages.schema import Params
from coevolve.stages.train.config import Train
from coevolve.stages.train.learner import Job, Shared
from coevolve.tracking.journal import Run, start


def main(params: Params) -> None:
    config = params.warm
    shutil.rmtree(Paths.policy(0), ignore_errors=True)
    steps = config.steps + config.unreliable_steps
    if steps == 0:
        shutil.copytree(Paths.base, Paths.policy(0))
        write_summary(StageSummary("warm", 0, {}))
        return
    environment = open_environment(params.environment)
    episodes = file_hash(Path(config.demonstrations)) if config.demonstrations else None
    cache = scratch() / "warm" / content_hash([scratch_key("warm", None, params), episodes])
    with start(params.tracking, "warm") as run:
        run.params({"seed": params.seed, "environment": params.environment, **dict(config)})
        policy = once(cache / "policy", lambda folder: _learn(params, environment, folder, cache / "training", run))
    shutil.copytree(policy, Paths.policy(0))
    figures = {"warm start steps": steps, "warm start episodes": steps * config.batch}
    notes = ["policies/0 has seen references, in a warm start"] if config.demonstrations is None else []
    write_summary(StageSummary("warm", 0, figures, costs=list(figures), notes=notes, arithmetic=in_effect().name))


def _learn(params: Params, environment: Environment, folder: Path, training: Path, run: Run) -> None:
    from coevolve.stages.warm.warm_start import demonstrations, learn

    job = Job(
        iteration=0,
        seed=derive_seed("warm start", params.seed),
        parent=Paths.base,
        tasks=[],
        policy=folder,
        trajectories=training,
        metrics=training,
        scratch=training,
        base=Paths.base,
    )
    examples = demonstrations(params.warm, environment, Limits.of(params.policy), job.seed)
    # the other keys of `train` belong to the loop: arms of a study share a warm start
    train = Train(
        lora=params.train.lora,
        gradient_checkpointing=params.train.gradient_checkpointing,
        share_prefixes=params.train.share_prefixes,
    )
    settings = Shared(train, params.policy, params.launch)
    learn(params.warm, settings, examples, job, lambda step, figures: run.metrics(figures, step))
    shutil.rmtree(training)
