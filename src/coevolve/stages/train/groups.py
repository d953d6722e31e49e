"""Groups worth learning from: played, those of equal rewards dropped, and replaced."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from coevolve.core.records import StopReason
from coevolve.core.task import Task
from coevolve.rollout import Episode

Group = list[Episode]


@dataclass(frozen=True, slots=True)
class Gathered:
    """``kept`` groups differ in reward and are trained on; ``played`` are all, kept ones included."""

    kept: list[Group]
    played: list[Group]

    @property
    def dropped(self) -> int:
        return len(self.played) - len(self.kept)


def rewards(group: Group) -> list[float | None]:
    """A reward for each episode; None where the environment failed, which is not the agent's fault."""
    return [
        None if one.trajectory.stop_reason is StopReason.ENVIRONMENT_FAILED else one.trajectory.score for one in group
    ]


def teaches(group: Group) -> bool:
    """Whether rewards differ: otherwise every advantage of the group is zero."""
    return len({reward for reward in rewards(group) if reward is not None}) > 1


def gather(
    play: Callable[[Sequence[Task], int], list[Group]], tasks: Iterator[Task], wanted: int, refills: int
) -> Gathered:
    """Play ``wanted`` groups, then up to ``refills`` times replacements for those that teach nothing.

    ``play`` takes tasks and the number of the first group. Fewer than ``wanted`` groups are kept where the
    replacements did not teach either; at least one is, so that there is always a step to take.
    """
    played = play(list(islice(tasks, wanted)), 0)
    kept = [group for group in played if teaches(group)]
    for _ in range(refills):
        more = list(islice(tasks, wanted - len(kept)))
        if not more:
            break
        fresh = play(more, len(played))
        played = [*played, *fresh]
        kept.extend(group for group in fresh if teaches(group))
    return Gathered(kept or played[:1], played)
