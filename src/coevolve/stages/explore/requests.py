"""Exploration of the real environment around the agent's weaknesses.

A signal, with the failed trajectories that show it, becomes a request: where to start, and which tools to look at.
An explorer answers requests with chains of calls that the environment accepted: ``scripted`` needs no model,
``endpoint`` lets an LLM reflect and act, ``policy`` lets the policy itself attempt weak tasks in fresh worlds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.records import Signal, Trajectory
from coevolve.core.seeding import derive_seed, generator
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.knowledge import uses
from coevolve.stages.explore.guidance import sample, weight

SHOWN = 12  # calls of a failed trajectory that the context shows


@dataclass(frozen=True)
class Request:
    """One exploration to make: start in ``world`` of ``task``, around the weakness of ``signal`` (None: anywhere).

    ``context`` is the reflection on the weakness: what was asked, what was tried, what came back, which tools are
    in focus. ``failed`` is the trajectory that shows it.
    """

    exploration_id: str
    iteration: int
    signal: Signal | None
    task: Task
    world: dict[str, Any]
    context: dict[str, Any]
    failed: Trajectory | None
    seed: int


def requests(
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    signals: Sequence[Signal],
    count: int,
    iteration: int,
    seed: int,
) -> list[Request]:
    """``count`` requests: around ``signals`` in proportion to their ``weight``; anywhere if there are none."""
    by_id = {task.task_id: task for task in tasks}
    shown = {trajectory.trajectory_id: trajectory for trajectory in trajectories}
    asked = uses(tasks)
    tools = max(sum(len(one.pattern or ()) == 1 for one in signals), 1)
    starts = [_start(one, by_id, shown) for one in signals]
    weights = [weight(one, _weakness(one, *start), asked, tools) for one, start in zip(signals, starts, strict=True)]
    made = []
    for number, drawn in enumerate(sample(weights, count, generator("requests", seed, iteration))):
        rng = generator("request", seed, iteration, number)
        signal, (start, failed) = (None, (None, None)) if drawn is None else (signals[drawn], starts[drawn])
        task = start or rng.choice(tasks)
        fresh: Callable[[Task, int], dict[str, Any]] | None = getattr(environment, "fresh_world", None)
        world = fresh(task, derive_seed("world", seed, iteration, number)) if fresh else task.world
        exploration_id = content_hash(["exploration", seed, iteration, number, signal and signal.signal_id])
        context = reflect(signal, task, failed)
        made.append(Request(exploration_id, iteration, signal, task, world, context, failed, rng.randrange(2**62)))
    return made


def _start(
    signal: Signal, tasks: Mapping[str, Task], shown: Mapping[str, Trajectory]
) -> tuple[Task | None, Trajectory | None]:
    failed = _failed(signal, shown)
    return tasks.get(signal.task_id or (failed.task_id if failed else "")), failed


def _failed(signal: Signal | None, shown: Mapping[str, Trajectory]) -> Trajectory | None:
    """The trajectory that shows the weakness: a failed one, if there is one."""
    known = [shown[one] for one in signal.trajectory_ids if one in shown] if signal else []
    return next((one for one in known if not is_success(one.score)), known[0] if known else None)


def _weakness(signal: Signal, task: Task | None, failed: Trajectory | None) -> list[str]:
    """The tools that a signal speaks of: its pattern, or what the failed attempt left out, or all that the task asks for."""
    if signal.pattern or task is None:
        return list(signal.pattern or ())
    return _unused(task, failed) or task.tools


def _unused(task: Task, failed: Trajectory | None) -> list[str]:
    made = {call.name for call in failed.calls} if failed else set()
    return [name for name in task.tools if name not in made]


def reflect(signal: Signal | None, task: Task, failed: Trajectory | None) -> dict[str, Any]:
    """The exploration context: what was asked, what the agent did, what the environment answered, what to look at."""
    made = failed.calls if failed else []
    return {
        "kind": signal.kind if signal else "no signal",
        "instruction": task.turns,
        "focus": list(signal.pattern or task.tools) if signal else [],
        "weakness": _weakness(signal, task, failed) if signal else [],
        "tried": [{"name": call.name, "arguments": call.arguments, "ok": call.ok} for call in made[:SHOWN]],
        "feedback": [call.observation[:200] for call in made if not call.ok][:SHOWN],
        "score": failed.score if failed else None,
    }
