"""Requests for exploration of the real environment around the agent's weaknesses.

A signal, with the failed trajectories that show it, becomes a request: where to start, and which tools to look at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.records import Generation, Signal
from coevolve.core.seeding import derive_seed, generator
from coevolve.core.success import is_success
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.environment import Environment
from coevolve.knowledge import uses
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.guidance import GUIDANCE, SCHEDULES, sample, weight
from coevolve.stages.generate.spec import exploration_of


@dataclass(frozen=True)
class Request:
    """One exploration to make: start in ``world`` of ``task``, around the weakness of ``signal`` (None: anywhere).

    ``failed`` is the trajectory that shows the weakness, ``focus`` the tools that it is about, and ``weakness`` those
    that the agent gets wrong. ``tools`` weighs every tool of the environment as something to go for besides. ``goals``, if there are
    any, are all that is to be called, in this order; what does not call all of them found nothing.
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
    """A request for each of ``generations`` that can be tried: exactly its ``goals``, in their order, around the task that it varies."""
    by_id = {task.task_id: task for task in tasks}
    made = []
    for one in generations:
        if one.goals is not None and one.seed in by_id:
            rng = generator("written", seed, one.generation_id)
            made.append(
                Request(
                    exploration_id=exploration_of(one),
                    iteration=iteration,
                    signal=None,
                    task=by_id[one.seed],
                    world=environment.fresh_world(by_id[one.seed], rng.randrange(2**62)),
                    failed=None,
                    focus=[],
                    weakness=[],
                    tools={},
                    seed=rng.randrange(2**62),
                    goals=[*one.goals, *([one.ask] if one.ask else [])],
                )
            )
    return made


def requests(
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    signals: Sequence[Signal],
    config: Explore,
    iteration: int,
    seed: int,
) -> list[Request]:
    """The requests of an iteration, as many as the schedule has for it and around what the guidance weighs."""
    guidance, count = GUIDANCE[config.guidance], SCHEDULES[config.schedule](config.explorations, iteration)
    by_id = {task.task_id: task for task in tasks}
    shown = {trajectory.trajectory_id: trajectory for trajectory in trajectories}
    asked = uses(tasks)
    names = [tool["function"]["name"] for tool in environment.tools()]
    tools = {name: guidance.tool(asked[name]) for name in names}
    single = max(sum(len(signal.pattern or ()) == 1 for signal in signals), 1)
    starts = [_start(signal, by_id, shown) for signal in signals]
    weights = [
        weight(signal, _weakness(signal, *start), tools, single)
        for signal, start in zip(signals, starts, strict=True)
        if guidance.signals
    ]
    made = []
    for number, drawn in enumerate(sample(weights, count, generator("requests", seed, iteration))):
        rng = generator("request", seed, iteration, number)
        signal, (start, failed) = (None, (None, None)) if drawn is None else (signals[drawn], starts[drawn])
        task = start or rng.choice(tasks)
        made.append(
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
    return made


def _start(
    signal: Signal, tasks: Mapping[str, Task], shown: Mapping[str, Trajectory]
) -> tuple[Task | None, Trajectory | None]:
    failed = _failed(signal, shown)
    return tasks.get(signal.task_id or (failed.task_id if failed else "")), failed


def _failed(signal: Signal, shown: Mapping[str, Trajectory]) -> Trajectory | None:
    """The trajectory that shows the weakness: a failed one, if there is one."""
    known = [shown[name] for name in signal.trajectory_ids if name in shown]
    return next((one for one in known if not is_success(one.score)), known[0] if known else None)


def _weakness(signal: Signal, task: Task | None, failed: Trajectory | None) -> list[str]:
    """The tools that a signal speaks of: its pattern, or what the failed attempt left out, or all that the task asks for."""
    if signal.pattern or task is None:
        return list(signal.pattern or ())
    return _unused(task, failed) or task.tools


def _unused(task: Task, failed: Trajectory | None) -> list[str]:
    made = {call.name for call in failed.calls} if failed else set()
    return [name for name in task.tools if name not in made]
