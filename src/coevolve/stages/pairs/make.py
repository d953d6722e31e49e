"""Turn a rehearsal into pairs: rank the failures, and let the failure agent add hard negatives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.progress import bar
from coevolve.core.trajectories import Trajectory
from coevolve.stages.pairs.check import Checked, check
from coevolve.stages.pairs.choose import choose
from coevolve.stages.pairs.closeness import Failure, failures, ranked
from coevolve.stages.pairs.config import Pairs
from coevolve.stages.pairs.failure_agent import Evolved, PairsContext, Rival, evolve
from coevolve.stages.pairs.rehearse import rehearse
from coevolve.stages.train.config import Train
from coevolve.stages.train.reference_tokens import replayed


@dataclass(frozen=True, slots=True)
class Made:
    """The ``checked`` pairs and their episodes.

    ``failures`` are those of the rehearsals, by trajectory id. ``hard`` are the hard negatives of the failure agent, if it plays.
    """

    checked: Checked = field(default_factory=lambda: Checked([], [], []))
    rehearsals: Sequence[Trajectory] = ()
    references: Sequence[Trajectory] = ()
    failures: Mapping[str, Failure] = field(default_factory=dict)
    hard: Sequence[Trajectory] = ()
    evolved: Evolved | None = None


def make(policy: Path, context: PairsContext, config: Train, section: Pairs, rival: Rival | None = None) -> Made:
    """Let the model directory ``policy`` and its ``rival``, if there is one, play; rank their failures and choose pairs.

    Raises a CoevolveError if no reference succeeds: failures are ranked against references.
    """
    environment, plan = context.environment, context.plan
    references = replayed(environment, plan.tasks, context.limits)
    if not references:
        raise CoevolveError(
            f"train.learner: {config.learner} needs references that solve their tasks in a replay, but none of the "
            f"{len(plan.tasks)} tasks of iteration {plan.iteration} of {environment.name} has one; set train.learner: grpo"
        )
    count = config.steps * config.tasks_per_step * config.group_size
    with context.open(policy) as player, bar(count, f"pairs {plan.iteration}", "episodes") as progress:
        played = rehearse(player, environment, plan, config, context.limits, progress.update)
    judge = partial(failures, environment, plan.tasks, references)
    failed = judge(played)
    ranks, hard, evolved = ranked(failed), [], None
    if rival:
        evolved = evolve(rival, context, played, failed, judge, section)
        ranks |= ranked(evolved.failures)
        closest = rival.config.closeness
        hard = [episode for episode in evolved.after if ranks.get(episode.trajectory_id, -1.0) >= closest]
    pairs = choose(played, references, ranks, section, plan, hard)
    episodes = {episode.trajectory_id: episode for episode in (*played, *references.values(), *hard)}
    return Made(check(pairs, episodes, section.margin), played, list(references.values()), failed, hard, evolved)
