"""Requests to explore the real environment around the agent's weaknesses.

A signal and its failed trajectories become a request: where to start, and which tools to use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.records import Generation, Signal
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import uses
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.guidance import guidance, sample, weight
from coevolve.stages.generate.spec import exploration_of


@dataclass(frozen=True)
class Request:
    """A request for an exploration from ``world`` of ``task``, around the weakness of ``signal`` (None: anywhere).

    ``failed`` is the trajectory that shows the weakness, ``focus`` the tools that the signal is about, and ``weakness``
    the tools that the agent gets wrong. ``tools`` are the weights of all tools, for additional goals. If there are
    ``goals``, the explorer calls exactly these tools in this order; an exploration that misses a goal found nothing.
    """

    exploration_id: str
    iteration: int
    signal: Signal | None
    task: Task
    world: dict[str, Any]
    failed: Trajectory | None
    focus: list[str]
    weakness: list[str]
    tools: Mapping[str, float]
    seed: int
    goals: Sequence[str] = ()


def written(
    environment: Environment, tasks: Sequence[Task], generations: Sequence[Generation], iteration: int, seed: int
) -> list[Request]:
    """A request for each valid spec: exactly its ``goals``, in their order, around the task that it varies."""
    by_id = {task.task_id: task for task in tasks}
    requests = []
    for generation in generations:
        if generation.goals is not None and generation.seed in by_id:
            rng = rng_for("written", seed, generation.generation_id)
            requests.append(
                Request(
                    exploration_id=exploration_of(generation),
                    iteration=iteration,
                    signal=None,
                    task=by_id[generation.seed],
                    world=environment.fresh_world(by_id[generation.seed], rng.randrange(2**62)),
                    failed=None,
                    focus=[],
                    weakness=[],
                    tools={},
                    seed=rng.randrange(2**62),
                    goals=[*generation.goals, *([generation.ask] if generation.ask else [])],
                )
            )
    return requests


def requests(
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    signals: Sequence[Signal],
    config: Explore,
    iteration: int,
    seed: int,
) -> list[Request]:
    """The requests of an iteration; the guidance decides their signals and tools."""
    guide = guidance(config.guidance)
    by_id = {task.task_id: task for task in tasks}
    trajectories_by_id = {trajectory.trajectory_id: trajectory for trajectory in trajectories}
    use_counts = uses(tasks)
    names = [tool["function"]["name"] for tool in environment.tools()]
    if guide.change:
        signals = guide.change(signals, trajectories, names, iteration, seed)
    tools = {name: guide.tool(use_counts[name]) for name in names}
    singles = max(sum(len(signal.pattern or ()) == 1 for signal in signals), 1)
    starts = [_start(signal, by_id, trajectories_by_id) for signal in signals]
    weights = [
        weight(signal, _weakness(signal, *start), tools, singles)
        for signal, start in zip(signals, starts, strict=True)
        if guide.signals
    ]
    drawn_requests = []
    for number, drawn in enumerate(sample(weights, config.explorations, rng_for("requests", seed, iteration))):
        rng = rng_for("request", seed, iteration, number)
        signal, (start, failed) = (None, (None, None)) if drawn is None else (signals[drawn], starts[drawn])
        task = start or rng.choice(tasks)
        drawn_requests.append(
            Request(
                exploration_id=content_hash(["exploration", seed, iteration, number, signal and signal.signal_id]),
                iteration=iteration,
                signal=signal,
                task=task,
                world=environment.fresh_world(task, derive_seed("world", seed, iteration, number)),
                failed=failed,
                focus=list(signal.pattern or task.tools) if signal else [],
                weakness=_weakness(signal, task, failed) if signal else [],
                tools=tools,
                seed=rng.randrange(2**62),
            )
        )
    return drawn_requests


def _start(
    signal: Signal, tasks: Mapping[str, Task], shown: Mapping[str, Trajectory]
) -> tuple[Task | None, Trajectory | None]:
    """The task to start from and the trajectory that shows the weakness, preferably a failed one."""
    evidence = [shown[name] for name in signal.trajectory_ids if name in shown]
    failures = [trajectory for trajectory in evidence if not is_success(trajectory.score)]
    failed = next(iter(failures or evidence), None)
    return tasks.get(signal.task_id or (failed.task_id if failed else "")), failed


def _weakness(signal: Signal, task: Task | None, failed: Trajectory | None) -> list[str]:
    """The tools of a signal: its pattern, or the tools that the failed attempt did not use, or all tools of the task."""
    if signal.pattern or task is None:
        return list(signal.pattern or ())
    called = {call.name for call in failed.calls} if failed else set()
    return [name for name in task.tools if name not in called] or task.tools
