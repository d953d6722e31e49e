"""Rows of other tools that hold no messages: an episode's task, step, score, and which calls the environment accepted."""

from collections.abc import Iterator
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.io import parse
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import StopReason
from coevolve.rollouts.chats import Unreadable
from coevolve.rollouts.rollout_row import Options, Place, RolloutFormat, RolloutRow, number
from coevolve.stages.signals.table import NO_ANSWER, REQUIRED, RecordedEpisode


def read(value: dict[str, Any], place: Place, options: Options) -> Iterator[RolloutRow]:
    reward = options.reward or "score"
    try:
        row = parse(RecordedEpisode, {**value, "score": value.get(reward)}, place.where)
    except CoevolveError as error:
        raise Unreadable(str(error).removeprefix(f"{place.where}: ")) from None
    yield recorded(row, place.where)


def recorded(row: RecordedEpisode, where: str) -> RolloutRow:
    """The rollout of an episode without messages."""
    failed = row.stop_reason == StopReason.ENVIRONMENT_FAILED
    return RolloutRow(
        where,
        [],
        number(row.score, "score"),
        step=row.step,
        iteration=row.iteration or 0,
        failure="the environment failed" if failed else "",
        trajectory_id=row.trajectory_id,
        calls=[
            CallOutcome(call.name, {}, call.ok is not False, NO_ANSWER if call.ok is False else "", 0)
            for call in row.calls or ()
        ],
        task_id=row.task_id,
    )


EPISODES = RolloutFormat(
    "episodes",
    "rows with task_id, step and score",
    ("*.jsonl",),
    "no messages and no arguments of calls, which `coevolve grow` explores from",
    lambda row: set(REQUIRED) <= set(row) and "successes" not in row,  # attempts.jsonl of a run has counts
    read,
)
