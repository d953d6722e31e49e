"""Stage `warm`: policies/base learns to act, by supervised learning on references or on a file of episodes.

Writes policies/0, a copy of policies/base if `warm.steps` is 0. In a user's own environment the tiny policy first gets its words.
The stage ends as soon as the policy solves the share `warm.until`
of the held-out training tasks, and fails if it solves none at the end. Checkpoints are in scratch/warm: after a kill, a new run
continues from them. The finished policy stays there, for the next run with the same warm start.
"""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.arithmetic import in_effect
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash, file_hash
from coevolve.core.io import read_json, write_json
from coevolve.core.paths import Paths
from coevolve.core.pipeline import scratch_key
from coevolve.core.scratch import once, scratch
from coevolve.core.seeding import derive_seed
from coevolve.core.stage_seconds import note_step
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import open_environment
from coevolve.rollout import Limits
from coevolve.stages.schema import Params
from coevolve.stages.train.config import Train
from coevolve.stages.train.learner import Job, Shared, noted
from coevolve.stages.warm.config import NEW_WORDS

REACHED = "reached.json"
TOO_ABLE = 0.9  # success on held-out tasks above which a group of attempts rarely differs


def main(params: Params) -> None:
    config = params.warm
    shutil.rmtree(Paths.policy(0), ignore_errors=True)
    if config.steps == 0:
        if params.new_words:
            raise CoevolveError(
                f"warm.steps is 0, but base.model: {params.base.model} must learn the words of {params.environment}: set warm to "
                f"{json.dumps(NEW_WORDS)} (as `coevolve init` does), or base.model to a pretrained model"
            )
        shutil.copytree(Paths.base, Paths.policy(0))
        write_summary(StageSummary("warm", 0, {}))
        print("nothing to do: warm.steps is 0")
        return
    environment = open_environment(params.environment)
    episodes = file_hash(Path(config.demonstrations)) if config.demonstrations else None
    cache = scratch() / "warm" / content_hash([scratch_key("warm", None, params), episodes])
    made = once(cache / "made", lambda folder: _learn(params, environment, folder, cache / "training"))
    reached = read_json(made / REACHED)
    taken, solved = reached["steps"], reached["solved"]
    figures = {"warm start steps": taken, "warm start episodes": taken * config.batch}
    costs, notes = list(figures), []
    if config.demonstrations is None and taken:
        notes.append("policies/0 has seen references, in a warm start")
    if solved is not None:
        tasks = f"{reached['tasks']} held-out training tasks"
        if solved == 0:
            raise CoevolveError(
                f"warm.steps is {config.steps} and success on {tasks} is still 0, so the loop would learn nothing: try "
                f"{max(3 * config.steps, 300)}, start from a more able model (base.model, as `coevolve init --model` sets it), or "
                "teach with easier tasks (warm.split)"
            )
        figures["held-out success"] = solved
        steps = f"{taken} of {config.steps} warm.steps (warm.until: {config.until})"
        found = f"policies/0 solves {solved:.2f} of {tasks}, after {steps}"
        if solved > TOO_ABLE:
            found += (
                "; most groups of attempts will teach nothing: lower warm.until, or choose harder tasks (tasks.split)"
            )
            notes.append(found)
        print(found)
    doubted = noted()
    notes += doubted
    print("".join(f"{note}\n" for note in doubted), end="")
    shutil.copytree(made / "policy", Paths.policy(0))
    write_summary(StageSummary("warm", 0, figures, costs=costs, notes=notes, arithmetic=in_effect().name))


def _learn(params: Params, environment: Environment, folder: Path, training: Path) -> None:
    """Write the policy, the steps that it took, and the share of the held-out tasks that it solves (None without such tasks)."""
    from coevolve.policies.transformers_policy import TransformersPolicy, load
    from coevolve.stages.warm.new_words import fit, varied
    from coevolve.stages.warm.warm_start import demonstrations, divided, learn, success

    config, limits, policy = params.warm, Limits.of(params.policy), folder / "policy"
    _, held = divided(environment, config.split, config.tasks, config.until is not None)

    def solved(model: Any, tokenizer: Any) -> float:
        policy = TransformersPolicy(model, tokenizer, 0.0, params.policy.template)
        return success(policy, environment, held, limits)

    def saved(path: Path) -> float | None:
        return solved(*load(path, params.policy.threads, params.policy.dtype)) if held else None

    before, until = None if params.new_words else saved(Paths.base), config.until or 0.0
    taken = 0
    if before is not None and before >= until:
        shutil.copytree(Paths.base, policy)
    else:
        examples, parent, seed = (
            demonstrations(config, environment, limits),
            Paths.base,
            derive_seed("warm start", params.seed),
        )
        if params.new_words:
            tools = list(environment.tools())
            parent = once(training.with_name("fitted"), partial(fit, parent, tools, examples, seed))
            examples = varied(examples, tools, config.steps * config.batch, seed)
        job = Job(
            iteration=0,
            seed=seed,
            parent=parent,
            tasks=[],
            policy=policy,
            trajectories=training,
            metrics=training,
            scratch=training,
            base=Paths.base,
        )
        # the other keys of `train` belong to the loop: arms of a study share a warm start
        train = Train(
            lora=params.train.lora,
            gradient_checkpointing=params.train.gradient_checkpointing,
            share_prefixes=params.train.share_prefixes,
        )
        settings = Shared(train, params.policy, params.launch)
        able = (lambda model, tokenizer: solved(model, tokenizer) >= until) if held else None
        taken = learn(config, settings, examples, job, partial(note_step, "warm"), able)
        shutil.rmtree(training)
    after = saved(policy)
    write_json(folder / REACHED, {"steps": taken, "solved": after, "tasks": len(held)})
