"""The failure agent of Co-Evolving Agents: it learns among failures to fail close to success, and plays hard negatives.

It learns by DPO that of two failures at a task the closer one is preferred, whoever they are of, and plays the tasks that the agent in
training failed (Jung et al., "Co-Evolving Agents: Learning from Failures as Hard Negatives", 2026).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from coevolve.core.io import read_jsonl_objects, write_jsonl
from coevolve.core.progress import bar
from coevolve.core.records import Pair
from coevolve.core.seeding import derive_seed
from coevolve.core.success import is_success
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.policies import adapted
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits
from coevolve.stages.pairs.check import Checked, check
from coevolve.stages.pairs.choose import contrast
from coevolve.stages.pairs.closeness import Failure, ranked
from coevolve.stages.pairs.config import FailureAgent, Pairs
from coevolve.stages.pairs.rehearse import Rehearsal, play
from coevolve.stages.train.dpo import Dpo
from coevolve.stages.train.learner import Job, NothingToLearn, Shared

FEWEST = 0.05  # of its episodes must fail, or there is nothing to learn among failures

Figures = Sequence[Mapping[str, float]]  # of each step
Failures = Mapping[str, Failure]  # by id of the trajectory


@dataclass(frozen=True)
class PairsContext:
    """Where agents play; ``open`` opens a model directory as a policy."""

    environment: Environment
    plan: Rehearsal
    limits: Limits
    open: Callable[[Path], AbstractContextManager[Policy | Replicas]]


@dataclass(frozen=True)
class Rival:
    """The failure agent as an iteration finds it, in ``folder``, and how it learns; the model directory ``base`` is where it started."""

    folder: Path
    base: Path
    config: FailureAgent
    shared: Shared


def begun(folder: Path, first: Path, agent: Path, config: FailureAgent, shared: Shared, place: Path) -> Rival:
    """It as ``config.start`` says: as it was, in ``folder``, where it once started as the model directory ``first``; or as the ``agent``
    in training, for which ``place`` then stands.
    """
    if config.start == "own":
        return Rival(folder, first, config, shared)
    adapted.start(place, on=agent)
    return Rival(place, agent, config, shared)


@dataclass(frozen=True, slots=True)
class Evolved:
    """What the failure agent did: episodes ``before`` it learned and ``after``, its ``failures`` among them, and the pairs that it
    learned from, in steps of these ``figures``. ``folder`` is the agent as it is now; ``reason`` says why it did not learn.
    """

    folder: Path
    before: Sequence[Trajectory] = ()
    after: Sequence[Trajectory] = ()
    failures: Failures = field(default_factory=dict)
    checked: Checked = field(default_factory=lambda: Checked([], [], []))
    figures: Figures = ()
    reason: str = ""


def evolve(
    rival: Rival,
    ground: PairsContext,
    played: Sequence[Trajectory],
    failures: Failures,
    judge: Callable[[Sequence[Trajectory]], dict[str, Failure]],
    own: Pairs,
) -> Evolved:
    """Play, learn and play again, at those tasks where the agent in training failed: its ``failures`` are among what it has
    ``played``, and ``judge`` finds those among other episodes.
    """
    plan, config = ground.plan, rival.config
    known = {one.trajectory_id: one for one in played if one.trajectory_id in failures}
    seen = {one.task_id for one in known.values()}
    weak = [task for task in plan.tasks if task.task_id in seen]
    found = Evolved(rival.folder)
    if not weak:
        return replace(found, reason="the agent in training failed at no task that has a reference")

    def opened(folder: Path) -> Path:
        return adapted.opened(folder, plan.scratch / "merged", rival.shared.policy.dtype)

    def play_as(model: Path, count: int, phase: str) -> list[Trajectory]:
        with ground.open(model) as policy, bar(count, f"{phase} {plan.iteration}", "episodes") as progress:
            return play(policy, ground.environment, weak, count, plan, phase, ground.limits, progress.update)

    parent = opened(rival.folder)
    if config.start == "own":
        before = play_as(parent, config.episodes, "failures")
        found = replace(found, before=before, failures=judge(before))
    else:  # the agent in training has played for both
        before = [one for one in played if one.task_id in seen]
    counted = [one for one in before if one.counts]
    share = sum(not is_success(one.score) for one in counted) / max(len(counted), 1)
    if share < FEWEST:
        return replace(found, reason=f"{share:.1%} of its episodes fail, and it learns where {FEWEST:.0%} do")
    known |= {one.trajectory_id: one for one in found.before if one.trajectory_id in found.failures}
    ranks = ranked({**failures, **found.failures}, own.rank)
    found = replace(found, checked=check(contrast(list(known.values()), ranks, own, plan), known, own.margin))
    try:
        folder, figures = learned(rival, ground, parent, found.checked.pairs, list(known.values()))
    except NothingToLearn as error:
        return replace(found, reason=str(error))
    after = play_as(opened(folder), config.hard_episodes, "hard negatives")
    return replace(found, folder=folder, after=after, failures={**found.failures, **judge(after)}, figures=figures)


def learned(
    rival: Rival, ground: PairsContext, parent: Path, pairs: Sequence[Pair], episodes: Sequence[Trajectory]
) -> tuple[Path, Figures]:
    """The agent after it, as the model directory ``parent``, has learned from ``pairs`` of ``episodes``, and the figures of each
    step; made once, also after a kill.
    """
    from coevolve.stages.train.dpo_trainer import prefer
    from coevolve.stages.train.offline import Batch

    plan, config = ground.plan, rival.config
    folder, done = plan.scratch / "agent", plan.scratch / "learned.jsonl"
    if not done.exists():
        shared = _alone(rival)
        job = Job(
            iteration=plan.iteration,
            seed=derive_seed(plan.seed, "failure agent"),
            parent=parent,
            tasks=plan.tasks,
            policy=plan.scratch / "learned",
            trajectories=plan.scratch / "none",
            metrics=plan.scratch / "none",
            scratch=plan.scratch / "learning",
            base=rival.base,
            pairs=pairs,
            rehearsals=episodes,
        )
        own = Dpo(learning_rate=config.learning_rate, beta=config.beta, sft_weight=0.0)
        batch = Batch(config.batch, "pairs.failure_agent.batch")
        figures = prefer(own, shared, ground.environment, job, batch, f"failure agent {plan.iteration}")
        adapted.write(folder, rival.folder, job.policy)
        write_jsonl(done, figures)
    return folder, [row for _, row in read_jsonl_objects(done)]


def _alone(rival: Rival) -> Shared:
    """What all learners read, as the failure agent learns: by its own numbers, and in the one process that plays."""
    shared, config = rival.shared, rival.config
    steps = {"steps": config.steps, "save_steps": config.save_steps, "reference": "parent", "keep_base": 0.0}
    launch = {"processes": 1, "machines": 1, "sharding": "none"}
    return Shared(shared.train.model_copy(update=steps), shared.policy, shared.launch.model_copy(update=launch))
