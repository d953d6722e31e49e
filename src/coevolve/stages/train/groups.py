"""Groups worth learning from: played, those of equal rewards dropped, and replaced."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError
from coevolve.core.records import Attempt
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.rollout import Episode, RolloutRequest

Group = list[Episode]


@dataclass(frozen=True, slots=True)
class Gathered:
    """``kept`` groups are trained on, ``played`` are all, kept ones included."""

    kept: list[Group]
    played: list[Group]

    @property
    def dropped(self) -> int:
        """Groups that teach nothing."""
        return sum(not teaches(group) for group in self.played)


def requests(
    numbered: Iterable[tuple[int, Task]], size: int, seed: int, iteration: int, step: int
) -> list[RolloutRequest]:
    """The ``size`` attempts at each task; its number in the step, and so its seeds, depend on no other."""
    return [
        RolloutRequest(
            task, derive_seed(seed, "train", iteration, step, number, sample), iteration, step, number, sample
        )
        for number, task in numbered
        for sample in range(size)
    ]


def check_acts(gathered: Gathered, policy: str) -> None:
    """A CoevolveError if nobody in ``gathered``, which ``policy`` played, made any call, and nothing is learned from what was said."""
    played = [episode.trajectory for group in gathered.played for episode in group]
    if gathered.dropped == len(gathered.played) and not any(one.calls for one in played):
        raise CoevolveError(
            f"{policy} made no call in its first {len(played)} episodes, and a policy that never acts learns nothing from rewards; "
            "give it a warm start: warm.steps in params.yaml, 50 say (docs/real-models.md)"
        )


def rewards(group: Group) -> list[float | None]:
    """A reward for each episode; None where the environment failed, which is not the agent's fault."""
    return [one.trajectory.score if one.trajectory.counts else None for one in group]


def teaches(group: Group) -> bool:
    """Whether rewards differ: otherwise every advantage of the group is zero."""
    return len({reward for reward in rewards(group) if reward is not None}) > 1


def attempts(trajectories: Iterable[Trajectory]) -> list[Attempt]:
    """What episodes say of their tasks, a step at a time; those that the environment failed say nothing."""
    scores: dict[tuple[str, int, int], list[float]] = {}
    for one in trajectories:
        if one.counts:
            scores.setdefault((one.task_id, one.iteration, one.step), []).append(one.score)
    return [attempt_of(*place, found) for place, found in scores.items()]


def gather(
    play: Callable[[Sequence[Task], int], list[Group]],
    tasks: Iterator[Task],
    wanted: int,
    refills: int,
) -> Gathered:
    """Play ``wanted`` groups, then up to ``refills`` times replacements for those that teach nothing.

    ``play`` takes tasks and the number of the first group. Fewer than ``wanted`` groups are kept where the replacements did not
    teach either; at least one is, so that there is always a step to take.
    """
    played = play(list(islice(tasks, wanted)), 0)
    kept = [group for group in played if teaches(group)]
    for _ in range(refills):
        more = list(islice(tasks, max(wanted - len(kept), 0)))
        if not more:
            break
        fresh = play(more, len(played))
        played = [*played, *fresh]
        kept.extend(group for group in fresh if teaches(group))
    return Gathered(kept[:wanted] or played[:1], played)
