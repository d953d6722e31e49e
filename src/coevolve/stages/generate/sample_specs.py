"""Sample specs: a generator turns prompts into generations."""

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
    """The seeds and the vocabulary of a sampling; ``system`` is the system prompt, empty for models trained on specs."""

    seed: int
    iteration: int
    tools: Tools
    system: str = ""


def write(
    policy: Policy | Replicas,
    requests: Sequence[tuple[Task, str]],
    plan: SamplingPlan,
    limits: Limits,
    progress: Callable[[int], object],
) -> list[Generation]:
    """A generation for each of the ``requests``, which are pairs of a task to vary and a prompt."""
    member = policy.members[0] if isinstance(policy, Replicas) else policy
    generations: list[Generation] = []
    for start in range(0, len(requests), limits.batch):
        batch = requests[start : start + limits.batch]
        conversations = [
            _conversation(key, start + key, task, prompt, plan, limits) for key, (task, prompt) in enumerate(batch)
        ]
        member.begin(conversations)
        for number, ((task, prompt), reply) in enumerate(zip(batch, member.act(conversations), strict=True), start):
            generations.append(_generation(number, task, prompt, reply.text, plan))
        progress(len(batch))
    return generations


def _conversation(key: int, number: int, task: Task, prompt: str, plan: SamplingPlan, limits: Limits) -> Conversation:
    messages: list[dict[str, Any]] = [{"role": "system", "content": plan.system}] if plan.system else []
    messages.append({"role": "user", "content": prompt})
    seed = derive_seed("generation", plan.seed, plan.iteration, number)
    return Conversation(key, messages, [], task, seed, limits.episode_tokens, REPLY)


def _generation(number: int, task: Task, prompt: str, text: str, plan: SamplingPlan) -> Generation:
    parsed = parse(text, plan.tools)
    spec = parsed if isinstance(parsed, Spec) else None
    return Generation(
        generation_id=content_hash(["generation", plan.seed, plan.iteration, number, prompt, text]),
        iteration=plan.iteration,
        seed=task.task_id,
        prompt=prompt,
        text=text,
        goals=list(spec.goals) if spec else None,
        ask=spec.ask if spec else None,
        outcome="" if spec else str(parsed),
    )
