"""Stage `warm`: policies/base learns to act, by supervised learning on references or on a file of episodes, where `warm.steps` says so.

Writes policies/0, which is policies/base as it is without steps. Checkpoints are in scratch/warm: run again after a kill, it goes on.
What was made stays there, for the next run with the same warm start.
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
from coevolve.stages.params import Params
from coevolve.stages.train.config import Train
from coevolve.stages.train.learner import Job, Shared
from coevolve.tracking.journal import Run, start


def main(params: Params) -> None:
    own = params.warm
    shutil.rmtree(Paths.policy(0), ignore_errors=True)
    if own.steps + own.unreliable_steps == 0:
        shutil.copytree(Paths.base, Paths.policy(0))
        write_summary(StageSummary("warm", 0, {}))
        return
    environment = open_environment(params.environment)
    episodes = file_hash(Path(own.demonstrations)) if own.demonstrations else None
    place = scratch() / "warm" / content_hash([scratch_key("warm", None, params), episodes])
    with start(params.tracking, "warm") as run:
        run.params({"seed": params.seed, "environment": params.environment, **dict(own)})
        made = once(place / "policy", lambda folder: _learn(params, environment, folder, place / "training", run))
    shutil.copytree(made, Paths.policy(0))
    count = own.steps + own.unreliable_steps
    took = {"warm start steps": count, "warm start episodes": count * own.batch}
    seen = ["policies/0 has seen references, in a warm start"] if own.demonstrations is None else []
    write_summary(StageSummary("warm", 0, took, costs=list(took), notes=seen, arithmetic=in_effect().name))


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
    found = demonstrations(params.warm, environment, Limits.of(params.policy), job.seed)
    # all else of `train` belongs to the loop: arms of a study share a warm start
    train = Train(lora=params.train.lora, gradient_checkpointing=params.train.gradient_checkpointing)
    settings = Shared(train, params.policy, params.launch)
    learn(params.warm, settings, found, job, lambda step, figures: run.metrics(figures, step))
    shutil.rmtree(training)
