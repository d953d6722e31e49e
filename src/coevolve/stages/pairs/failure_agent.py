"""The failure agent of Co-Evolving Agents: it learns among failures to fail close to success, and plays hard negatives.

It learns by DPO to prefer the closer of two failures at a task, its own or the agent's, and plays the tasks that the agent in
training failed (Jung et al., "Co-Evolving Agents: Learning from Failures as Hard Negatives", 2026).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coevolve.core.io import read_jsonl_objects, write_jsonl
from coevolve.core.records import Pair
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.policies import helper_model
from coevolve.stages.pairs.choose import check, contrast
from coevolve.stages.pairs.closeness import Failure, ranked
from coevolve.stages.pairs.config import FailureAgent, Pairs
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.train.config import Dpo
from coevolve.stages.train.learner import Job, NothingToLearn, Shared

FEWEST = 0.05  # least share of failed episodes to learn from

Figures = Sequence[Mapping[str, float]]  # one mapping per step
Failures = Mapping[str, Failure]  # by trajectory id


@dataclass(frozen=True)
class Rival:
    """The failure agent in ``folder`` at the start of an iteration; ``base`` is its initial model directory."""

    folder: Path
    base: Path
    config: FailureAgent
    shared: Shared


def begun(folder: Path, first: Path, agent: Path, config: FailureAgent, shared: Shared, start_folder: Path) -> Rival:
    """The failure agent that ``config.start`` names.

    With "own" it continues from ``folder``; its initial model directory was ``first``. With "agent" it is the ``agent`` in
    training, and ``start_folder`` points to that model directory.
    """
    if config.start == "own":
        return Rival(folder, first, config, shared)
    helper_model.start(start_folder, on=agent)
    return Rival(start_folder, agent, config, shared)


@dataclass(frozen=True, slots=True)
class Evolved:
    """The failure agent after an iteration, in ``folder``: its episodes ``before`` and ``after`` learning, and its ``failures``.

    ``pairs`` are those that it learned from, ``quarantine`` the pairs that broke an expectation, and ``figures`` the metrics of
    the steps. ``reason`` says why it did not learn.
    """

    folder: Path
    before: Sequence[Trajectory] = ()
    after: Sequence[Trajectory] = ()
    failures: Failures = field(default_factory=dict)
    pairs: Sequence[Pair] = ()
    quarantine: Sequence[dict[str, Any]] = ()
    figures: Figures = ()
    reason: str = ""


def evolve(
    rival: Rival,
    rehearsal: Rehearsal,
    played: Sequence[Trajectory],
    failures: Failures,
    judge: Callable[[Sequence[Trajectory]], dict[str, Failure]],
    section: Pairs,
) -> Evolved:
    """Let the failure agent play, learn and play again, at the tasks where the agent in training failed.

    ``played`` are the agent's episodes and ``failures`` the failures among them; ``judge`` finds the failures among others.
    """
    config = rival.config
    failed = {episode.trajectory_id: episode for episode in played if episode.trajectory_id in failures}
    failed_tasks = {episode.task_id for episode in failed.values()}
    tasks = [task for task in rehearsal.tasks if task.task_id in failed_tasks]
    evolved = Evolved(rival.folder)
    if not tasks:
        return replace(evolved, reason="the agent in training failed at no task that has a reference")

    def opened(folder: Path) -> Path:
        return helper_model.opened(folder, rehearsal.scratch / "merged", rival.shared.policy.dtype)

    parent = opened(rival.folder)
    if config.start == "own":
        before = rehearsal.play(parent, tasks, config.episodes, "failures")
        evolved = replace(evolved, before=before, failures=judge(before))
    else:  # both are the same model: the agent's episodes count as the failure agent's
        before = [episode for episode in played if episode.task_id in failed_tasks]
    counted = [episode for episode in before if episode.counts]
    share = sum(not is_success(episode.score) for episode in counted) / max(len(counted), 1)
    if share < FEWEST:
        return replace(evolved, reason=f"only {share:.1%} of its episodes fail; it needs at least {FEWEST:.0%}")
    failed |= {
        episode.trajectory_id: episode for episode in evolved.before if episode.trajectory_id in evolved.failures
    }
    ranks = ranked({**failures, **evolved.failures})
    pairs = contrast(list(failed.values()), ranks, section, rehearsal.seed, rehearsal.iteration)
    pairs, quarantine = check(pairs, failed.values(), section.margin)
    evolved = replace(evolved, pairs=pairs, quarantine=quarantine)
    try:
        folder, figures = learned(rival, rehearsal, parent, pairs, list(failed.values()))
    except NothingToLearn as error:
        return replace(evolved, reason=str(error))
    after = rehearsal.play(opened(folder), tasks, config.hard_episodes, "hard negatives")
    return replace(evolved, folder=folder, after=after, failures={**evolved.failures, **judge(after)}, figures=figures)


def learned(
    rival: Rival, rehearsal: Rehearsal, parent: Path, pairs: Sequence[Pair], episodes: Sequence[Trajectory]
) -> tuple[Path, Figures]:
    """Train the model directory ``parent`` on ``pairs`` of ``episodes``, unless a killed run has finished the training.

    Returns the folder of the new agent and the figures of each step.
    """
    from coevolve.stages.train.dpo import prefer
    from coevolve.stages.train.offline import Batch

    config = rival.config
    folder, done = rehearsal.scratch / "agent", rehearsal.scratch / "learned.jsonl"
    if not done.exists():
        # with the failure agent's own settings, and in a single process
        steps = {"steps": config.steps, "anchor": "parent", "keep_base": 0.0}
        launch = {"processes": 1, "machines": 1, "sharding": "none"}
        train, policy, machines = rival.shared.train, rival.shared.policy, rival.shared.launch
        shared = Shared(train.model_copy(update=steps), policy, machines.model_copy(update=launch))
        job = Job(
            iteration=rehearsal.iteration,
            seed=derive_seed(rehearsal.seed, "failure agent"),
            parent=parent,
            tasks=rehearsal.tasks,
            policy=rehearsal.scratch / "learned",
            trajectories=rehearsal.scratch / "none",
            metrics=rehearsal.scratch / "none",
            scratch=rehearsal.scratch / "learning",
            base=rival.base,
            pairs=pairs,
            rehearsals=episodes,
        )
        dpo = Dpo(learning_rate=config.learning_rate, beta=config.beta, sft_weight=0.0)
        batch = Batch(config.batch, "pairs.failure_agent.batch")
        figures = prefer(dpo, shared, rehearsal.environment, job, batch, f"failure agent {rehearsal.iteration}")
        helper_model.write(folder, rival.folder, job.policy)
        write_jsonl(done, figures)
    return folder, [row for _, row in read_jsonl_objects(done)]
