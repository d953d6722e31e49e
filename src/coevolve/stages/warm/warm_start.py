"""A warm start: a model learns to act by supervised learning on right episodes, before the loop begins.

A pretrained model that makes no call learns nothing from rewards: whatever it says, all its episodes score the same. The
learner is that of ``train.learner: sft``. After right episodes may come those of a demonstrator that errs: a policy that is
always right leaves reinforcement nothing to choose from, and one that was stopped early lacks skills that it cannot give.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import derive_seed, generator
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.core.trajectories import Trajectory, read_trajectories
from coevolve.environments.environment import Environment
from coevolve.environments.mixture import parts
from coevolve.knowledge import learn as learn_tools
from coevolve.policies.agent_prompt import Renderer
from coevolve.policies.policy import Conversation
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from coevolve.stages.base.noisy_demonstrator import Unreliable, chances
from coevolve.stages.train.checkpoints import Keeper, resumed
from coevolve.stages.train.learner import Job, Log, Shared
from coevolve.stages.train.offline import Batch, Row, in_rounds, trained
from coevolve.stages.train.reference_tokens import Tokens, Tools, offered, replayed, tokens
from coevolve.stages.train.saving import save
from coevolve.stages.train.sft_trainer import method, supervised
from coevolve.stages.warm.config import Warm


@dataclass(frozen=True)
class Demonstrations:
    """Episodes to imitate, ``right`` ones and those of a demonstrator that errs, and the tools that each task offers."""

    right: Sequence[Trajectory]
    unreliable: Sequence[Trajectory]
    tools: Mapping[str, Tools]


class UnreliablePolicy(ReferencePolicy):
    """Replays references as ``demonstrator`` would."""

    def __init__(self, environment: Environment, demonstrator: Unreliable) -> None:
        super().__init__(environment)
        self._demonstrator = demonstrator

    def planned(self, conversation: Conversation) -> list[list[ToolCall]]:
        rng = generator("unreliable demonstrator", conversation.seed)
        made = ([self._demonstrator.spoilt(call, rng) for call in turn] for turn in super().planned(conversation))
        return [[call for call in turn if call is not None] for turn in made]


def demonstrations(own: Warm, environment: Environment, limits: Limits, seed: int) -> Demonstrations:
    """Those of the file that `warm.demonstrations` names, or else what the references of the split make."""
    if own.demonstrations is not None:
        file = Path(own.demonstrations)
        right = [one for one in read_trajectories(file) if is_success(one.score)]
        if not right:
            raise CoevolveError(f"warm.demonstrations: {file} has no episode that succeeded")
        return Demonstrations(right, [], {one.task_id: list(environment.tools()) for one in right})
    tasks = [task for task in environment.tasks(own.split) if any(environment.reference(task))][: own.tasks]
    if not tasks:
        raise CoevolveError(
            f"warm.steps: no task of {environment.name}'s split {own.split!r} has a reference to imitate; name episodes in "
            "warm.demonstrations, or set it to 0"
        )
    tools = offered(environment, tasks)
    right = list(replayed(environment, tasks, limits).values())
    return Demonstrations(right, _unreliable(own, environment, tasks, limits, seed), tools)


def _unreliable(
    own: Warm, environment: Environment, tasks: Sequence[Task], limits: Limits, seed: int
) -> list[Trajectory]:
    if not own.unreliable_steps:
        return []
    low, high = own.unreliability
    found = []
    for part in parts(environment):
        world, mine = part.environment, part.own(tasks)
        demonstrator = unreliable(world, mine, low, high, seed)
        requests = [RolloutRequest(task, derive_seed("unreliable demonstrator", seed, task.task_id)) for task in mine]
        found += [
            one.trajectory for one in scored(rollout(UnreliablePolicy(world, demonstrator), world, requests, limits))
        ]
    return found


def unreliable(environment: Environment, tasks: Sequence[Task], low: float, high: float, seed: int) -> Unreliable:
    """A demonstrator that gets tools wrong which change the world, taking others of the same arguments for them."""
    changing = learn_tools(environment, tasks).changing
    functions = [schema["function"] for schema in environment.tools()]
    keys = {one["name"]: frozenset(one["parameters"].get("properties", {})) for one in functions}
    look_alikes = {
        name: [other for other in sorted(changing) if other != name and keys.get(other) == keys.get(name)]
        for name in changing
    }
    return Unreliable(chances(changing, low, high, seed), look_alikes)


def learn(own: Warm, settings: Shared, found: Demonstrations, job: Job, log: Log | None = None) -> None:
    """Train or resume ``job`` from its parent, and write its policy."""
    lora = settings.train.lora if own.adapters else settings.train.lora.model_copy(update={"enabled": False})
    changed = {
        "steps": own.steps + own.unreliable_steps,
        "lora": lora,
        "keep_base": 0.0,
        "micro_batch": own.micro_batch,
    }
    shared = Shared(settings.train.model_copy(update=changed), settings.policy, settings.launch)
    checkpoint, steps = resumed(job.scratch)
    rows = _rows(own, settings.policy.episode_tokens, found, job.seed)
    batch = Batch(own.batch, "warm.batch")
    trainer, tokenizer = trained(
        method(own.learning_rate), shared, job, batch, "warm start", Keeper(steps, log), checkpoint, rows
    )
    save(trainer, tokenizer, shared, job)


def _rows(own: Warm, room: int, found: Demonstrations, seed: int) -> Callable[[Renderer], list[Row]]:
    """What makes the rows of all steps: right episodes, then those of who errs, each step's by length."""

    def rows(renderer: Renderer) -> list[Row]:
        made: list[Tokens] = []
        for name, steps, episodes in (
            ("right", own.steps, found.right),
            ("unreliable", own.unreliable_steps, found.unreliable),
        ):
            every = [tokens(renderer, found.tools[one.task_id], one) for one in episodes] if steps else []
            fitting = [one for one in every if len(one) <= room]
            if steps and not fitting:
                shortest = min(map(len, every), default=0)
                raise CoevolveError(
                    f"warm.steps: none of {len(every)} demonstrations fits into policy.episode_tokens, {room}: the shortest has "
                    f"{shortest} tokens"
                )
            made += in_rounds(fitting, own.batch * steps, "warm start order", name, seed)
        cut = (made[start : start + own.batch] for start in range(0, len(made), own.batch))
        return [supervised(one) for step in cut for one in sorted(step, key=len)]

    return rows
