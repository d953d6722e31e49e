"""An iteration of the generator: it learns from the outcomes of its generations and writes new ones."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.io import read_jsonl_objects, write_jsonl
from coevolve.core.learnability import Record
from coevolve.core.progress import bar
from coevolve.core.records import Attempt, Generation
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import learn as know
from coevolve.policies import helper_model
from coevolve.policies.policy import Conversation, Policy, Replicas
from coevolve.rollout import Limits
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.rewards import updated, weights
from coevolve.stages.generate.spec import Spec, SpecRequest, Tools, parse, seeds, seldom, system, tools
from coevolve.stages.generator.tiny_generator import knows_specs
from coevolve.stages.train.learner import Job, Shared

FEWEST = 8  # least number of weighted generations to learn from
REPLY = 256  # tokens of a spec, at most

Message = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Iteration ``t``: the dataset's ``tasks`` and ``attempts``, all earlier ``generations``, and the ``count`` of new ones.

    ``folder`` holds the generator and ``first`` the generator before any training. ``scratch`` keeps the progress of a killed
    run. ``open`` opens a model directory as a policy.
    """

    seed: int
    t: int
    tasks: Sequence[Task]
    attempts: Sequence[Attempt]
    generations: Sequence[Generation]
    count: int
    folder: Path
    first: Path
    scratch: Path
    environment: Environment
    limits: Limits
    open: Callable[[Path], AbstractContextManager[Policy | Replicas]]
    shared: Shared


@dataclass(frozen=True)
class Generated:
    """``new`` generations, and the update before them: the ``weights`` of earlier generations and the ``figures`` of its steps.

    ``learned`` is the model or adapter of the update; ``reason`` says why there was no update. ``tools`` is the number of
    possible goals.
    """

    new: Sequence[Generation] = ()
    weights: dict[str, float] = field(default_factory=dict)
    figures: Sequence[dict[str, float]] = ()
    learned: Path | None = None
    reason: str = ""
    tools: int = 0


def generate(plan: Plan, config: Generate) -> Generated:
    """Learn from earlier generations and write new ones; a run that resumes after a kill writes the same generations."""
    environment = plan.environment
    vocabulary = tools(environment, know(environment, plan.tasks))
    first = plan.first / helper_model.WHOLE
    told = [] if knows_specs(first) else [{"role": "system", "content": system(environment.tools(), vocabulary)}]
    dtype = plan.shared.policy.dtype
    before = helper_model.opened(plan.folder, plan.scratch / "before", dtype)
    past = updated(plan.generations, plan.attempts)
    weight_of = {} if config.frozen else weights(past, config, plan.t)
    learned: Path | None = None
    figures: list[dict[str, float]] = []
    reason = ""
    if len(weight_of) >= FEWEST:
        learned, figures = _learned(plan, config, past, weight_of, told, before)
        if not figures:
            learned, reason = None, "its first step exceeds generate.max_kl"
    elif not config.frozen:
        reason = f"only {len(weight_of)} generations have a weight above 0; the generator needs {FEWEST}"
    helper_model.write(plan.scratch / "generator", plan.folder, learned)
    after = helper_model.opened(plan.scratch / "generator", plan.scratch / "after", dtype)
    requests = prompts(plan, config, vocabulary, past)
    with plan.open(after) as policy, bar(len(requests), f"generate {plan.t}", "generations") as progress:
        new = write(policy, requests, plan, vocabulary, told, progress.update)
    return Generated(new, weight_of, figures, learned, reason, len(vocabulary.goals))


def prompts(plan: Plan, config: Generate, vocabulary: Tools, past: Sequence[Generation]) -> list[tuple[Task, str]]:
    """``plan.count`` tasks to vary with their prompts."""
    visits = Counter(generation.seed for generation in past)
    rng = rng_for("seeds", plan.seed, plan.t)
    # the last visit of a task counts; earlier visits are those of another agent
    records = {attempt.task_id: Record(attempt.successes, attempt.size) for attempt in plan.attempts}
    recent = [attempt for attempt in plan.attempts if attempt.iteration == plan.t]
    size = sum(attempt.size for attempt in recent)
    success = sum(attempt.successes for attempt in recent) / size if size else None
    seldom_used = seldom(plan.tasks, vocabulary)
    return [
        (task, str(SpecRequest(spec, records.get(task.task_id, Record()), success, seldom_used)))
        for task, spec in seeds(plan.tasks, vocabulary, visits, plan.count, config.variations, rng)
    ]


def write(
    policy: Policy | Replicas,
    requests: Sequence[tuple[Task, str]],
    plan: Plan,
    vocabulary: Tools,
    told: Sequence[Message],
    progress: Callable[[int], object],
) -> list[Generation]:
    """A generation for each of the ``requests``, which are pairs of a task to vary and a prompt. ``told`` comes before each prompt."""
    member = policy.members[0] if isinstance(policy, Replicas) else policy
    generations: list[Generation] = []
    for start in range(0, len(requests), plan.limits.batch):
        batch = requests[start : start + plan.limits.batch]
        conversations = []
        for key, (task, prompt) in enumerate(batch):
            seed = derive_seed("generation", plan.seed, plan.t, start + key)
            messages = [*told, {"role": "user", "content": prompt}]
            conversations.append(Conversation(key, messages, [], task, seed, plan.limits.episode_tokens, REPLY))
        member.begin(conversations)
        for number, ((task, prompt), reply) in enumerate(zip(batch, member.act(conversations), strict=True), start):
            parsed = parse(reply.text, vocabulary)
            spec = parsed if isinstance(parsed, Spec) else None
            generations.append(
                Generation(
                    generation_id=content_hash(["generation", plan.seed, plan.t, number, prompt, reply.text]),
                    iteration=plan.t,
                    seed=task.task_id,
                    prompt=prompt,
                    text=reply.text,
                    goals=list(spec.goals) if spec else None,
                    ask=spec.ask if spec else None,
                    outcome="" if spec else str(parsed),
                )
            )
        progress(len(batch))
    return generations


def _learned(
    plan: Plan,
    config: Generate,
    past: Sequence[Generation],
    weight_of: dict[str, float],
    told: Sequence[Message],
    before: Path,
) -> tuple[Path, list[dict[str, float]]]:
    """The model or adapter of the update, and its figures; a finished update is not repeated after a kill."""
    from coevolve.stages.generate.learn import Lesson, learn

    folder, done = plan.scratch / "learned", plan.scratch / "learned.jsonl"
    if not done.exists():

        def lesson(generation: Generation) -> Lesson:
            messages = [*told, {"role": "user", "content": generation.prompt}]
            return Lesson(messages, generation.text, weight_of.get(generation.generation_id, 0.0))

        last = max(generation.iteration for generation in past)
        probes = [lesson(generation) for generation in past if generation.iteration == last]
        lessons = [lesson(generation) for generation in past if generation.generation_id in weight_of]
        steps = {"steps": config.steps, "keep_base": 0.0}
        shared = replace(plan.shared, train=plan.shared.train.model_copy(update=steps))
        unused = plan.scratch / "none"
        job = Job(
            plan.t, plan.seed, before, plan.tasks, folder, unused, unused, plan.scratch / "learning",
            plan.first / helper_model.WHOLE,
        )  # fmt: skip
        write_jsonl(done, learn(lessons, probes, config, shared, job))
    return folder, [dict(row) for _, row in read_jsonl_objects(done)]
