"""A generator at work: prompts in, generations out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.records import Generation
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Task
from coevolve.policies.policy import Conversation, Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits
from coevolve.stages.generate.spec import Spec, Tools, parse

REPLY = 256  # tokens of a spec, at most


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Who writes, and what of: ``system`` is what the model is told before each prompt, if it must be told anything."""

    seed: int
    iteration: int
    tools: Tools
    system: str = ""
    control: bool = False


def write(
    policy: Policy | Replicas,
    wanted: Sequence[tuple[Task, str]],
    plan: SamplingPlan,
    limits: Limits,
    progress: Callable[[int], object],
) -> list[Generation]:
    """A generation for each of ``wanted``, a task to vary and what the generator is asked for."""
    member = policy.members[0] if isinstance(policy, Replicas) else policy
    found: list[Generation] = []
    for start in range(0, len(wanted), limits.batch):
        some = wanted[start : start + limits.batch]
        talks = [
            _conversation(place, start + place, task, prompt, plan, limits) for place, (task, prompt) in enumerate(some)
        ]
        member.begin(talks)
        for number, ((task, prompt), reply) in enumerate(zip(some, member.act(talks), strict=True), start):
            found.append(_generation(number, task, prompt, reply.text, plan))
        progress(len(some))
    return found


def _conversation(key: int, number: int, task: Task, prompt: str, plan: SamplingPlan, limits: Limits) -> Conversation:
    told: list[dict[str, Any]] = [{"role": "system", "content": plan.system}] if plan.system else []
    seed = derive_seed("generation", plan.seed, plan.iteration, plan.control, number)
    return Conversation(key, [*told, {"role": "user", "content": prompt}], [], task, seed, limits.episode_tokens, REPLY)


def _generation(number: int, task: Task, prompt: str, text: str, plan: SamplingPlan) -> Generation:
    found = parse(text, plan.tools)
    spec = found if isinstance(found, Spec) else None
    return Generation(
        generation_id=content_hash(["generation", plan.seed, plan.iteration, plan.control, number, prompt, text]),
        iteration=plan.iteration,
        seed=task.task_id,
        prompt=prompt,
        text=text,
        goals=list(spec.goals) if spec else None,
        ask=spec.ask if spec else None,
        control=plan.control,
        outcome="" if spec else str(found),
    )
