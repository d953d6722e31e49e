"""A placebo for signals: the same signals about other tasks and tools.

Guidance by signals does two things: it asks where the agent is weak, and it asks in a certain form, around a task and its tools
with an attempt to look at. The placebo keeps the form and takes away what signals know.

The arms `shuffled` of this study and of placebo-depleted name this file as `explore.guidance`. Up to commit 21b9c33 it was
`coevolve/stages/explore/placebo.py`, and the value was `shuffled`.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from coevolve.core.records import Signal
from coevolve.core.seeding import rng_for
from coevolve.core.trajectories import Trajectory
from coevolve.stages.explore.guidance import Guidance, seldom


def shuffled(
    signals: Sequence[Signal], trajectories: Sequence[Trajectory], tools: Sequence[str], iteration: int, seed: int
) -> list[Signal]:
    """``signals`` with their kinds and strengths, each about another task and other tools.

    One seeded permutation without fixed points maps the tasks that have ``trajectories`` or signals, another the ``tools``. The
    evidence is a random attempt at the new task, successful or not.
    """
    attempts: dict[str, list[str]] = {}
    task_of = {}
    for trajectory in trajectories:
        attempts.setdefault(trajectory.task_id, []).append(trajectory.trajectory_id)
        task_of[trajectory.trajectory_id] = trajectory.task_id
    known = {*attempts, *(signal.task_id for signal in signals if signal.task_id)}
    other_task = _permutation(known, "tasks", seed, iteration)
    other_tool = _permutation(tools, "tools", seed, iteration)
    moved = []
    for signal in signals:
        about = signal.task_id or next((task_of[name] for name in signal.trajectory_ids if name in task_of), "")
        task = other_task.get(about, "")
        rng = rng_for("placebo evidence", seed, iteration, signal.signal_id)
        moved.append(
            replace(
                signal,
                task_id=signal.task_id and task,
                pattern=signal.pattern and [other_tool.get(name, name) for name in signal.pattern],
                trajectory_ids=[rng.choice(attempts[task])] if task in attempts else [],
            )
        )
    return moved


def _permutation(names: Collection[str], of: str, seed: int, iteration: int) -> dict[str, str]:
    """Each name's successor in a random cycle through all ``names``."""
    cycle = sorted(names)
    rng_for("placebo", of, seed, iteration).shuffle(cycle)
    return dict(zip(cycle, cycle[1:] + cycle[:1], strict=True))


GUIDANCE = Guidance(seldom, signals=True, change=shuffled)
