"""An iteration of the generator: it learns from what became of its generations, and writes new ones."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevolve.core.io import read_jsonl_objects, write_jsonl
from coevolve.core.learnability import Record
from coevolve.core.progress import bar
from coevolve.core.records import Attempt, Generation
from coevolve.core.seeding import generator
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.knowledge import learn as know
from coevolve.policies import adapted
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.generator_prompts import SpecRequest, latest, seeds, seldom, success, system, tools
from coevolve.stages.generate.rewards import weights
from coevolve.stages.generate.sample_specs import SamplingPlan, write
from coevolve.stages.generate.spec import Tools
from coevolve.stages.generate.spec_outcomes import updated
from coevolve.stages.generator.tiny_generator import knows_specs
from coevolve.stages.train.learner import Job, Shared

FEWEST = 8  # generations of any weight, or there is nothing to learn from


@dataclass(frozen=True)
class Plan:
    """Iteration ``t``: the dataset's ``tasks``, ``attempts`` at them so far, all earlier ``generations``; ``count`` new ones are wanted.

    ``folder`` is the generator and ``first`` the one of before any training; ``scratch`` keeps what a killed run has done.
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
    withheld: Sequence[str] = ()


@dataclass(frozen=True)
class GeneratorContext:
    """What generators are opened by; ``open`` opens a model directory as a policy."""

    environment: Environment
    limits: Limits
    open: Callable[[Path], AbstractContextManager[Policy | Replicas]]
    shared: Shared


@dataclass(frozen=True)
class Generated:
    """What came of it: ``new`` generations, ``weights`` of earlier ones in the update, and its steps' ``figures``. ``learned`` is the
    model or adapter that it made; ``reason`` says why there was none. ``tools`` is how many a goal can be.
    """

    new: Sequence[Generation] = ()
    weights: dict[str, float] = field(default_factory=dict)
    figures: Sequence[dict[str, float]] = ()
    learned: Path | None = None
    reason: str = ""
    tools: int = 0


def generate(plan: Plan, own: Generate, ground: GeneratorContext) -> Generated:
    """Learn, and write: the same generations also after a kill."""
    environment = ground.environment
    known = tools(environment, know(environment, plan.tasks), plan.withheld)
    first = plan.first / adapted.WHOLE
    told = "" if knows_specs(first) else system(environment.tools(), known)
    dtype = ground.shared.policy.dtype
    before = adapted.opened(plan.folder, plan.scratch / "before", dtype)
    past = updated(plan.generations, plan.attempts)
    weighed = {} if own.frozen else weights([one for one in past if not one.control], own, plan.t)
    learned: Path | None = None
    figures: list[dict[str, float]] = []
    reason = "" if own.frozen else f"{len(weighed)} generations weigh anything, and it learns from {FEWEST}"
    if len(weighed) >= FEWEST:
        learned, figures = _learned(plan, own, ground, past, weighed, told, before)
        reason = ""
    adapted.write(plan.scratch / "generator", plan.folder, learned)
    now = adapted.opened(plan.scratch / "generator", plan.scratch / "after", dtype)
    wanted = prompts(plan, own, known, past, control=False)
    new = _written(now, wanted, SamplingPlan(plan.seed, plan.t, known, told), plan, ground)
    if plan.t and not own.frozen:
        control = prompts(plan, own, known, past, control=True)
        new += _written(first, control, SamplingPlan(plan.seed, plan.t, known, told, control=True), plan, ground)
    return Generated(new, weighed, figures, learned, reason, len(known.goals))


def prompts(
    plan: Plan, own: Generate, known: Tools, past: Sequence[Generation], control: bool
) -> list[tuple[Task, str]]:
    """Tasks to vary, and what the generator is asked for: as many as are wanted, or as control takes."""
    visits = Counter(one.seed for one in past)
    rng = generator("seeds", plan.seed, plan.t, control)
    count = own.control if control else plan.count
    records, few = latest(plan.attempts), seldom(plan.tasks, known)
    of_late = success(plan.attempts, plan.t)
    return [
        (task, str(SpecRequest(spec, records.get(task.task_id, Record()), of_late, few)))
        for task, spec in seeds(plan.tasks, known, visits, count, own.variations, rng)
    ]


def _written(
    model: Path, wanted: Sequence[tuple[Task, str]], how: SamplingPlan, plan: Plan, ground: GeneratorContext
) -> list[Generation]:
    name = f"control {plan.t}" if how.control else f"generate {plan.t}"
    with ground.open(model) as policy, bar(len(wanted), name, "generations") as progress:
        return write(policy, wanted, how, ground.limits, progress.update)


def _learned(
    plan: Plan,
    own: Generate,
    ground: GeneratorContext,
    past: Sequence[Generation],
    weighed: dict[str, float],
    told: str,
    before: Path,
) -> tuple[Path, list[dict[str, float]]]:
    """The model or adapter that the update makes, and its figures; made once, also after a kill."""
    from coevolve.stages.generate.learn import Lesson, learn

    folder, done = plan.scratch / "learned", plan.scratch / "learned.jsonl"
    if not done.exists():

        def lesson(one: Generation) -> Lesson:
            heard: list[dict[str, Any]] = [{"role": "system", "content": told}] if told else []
            return Lesson(
                [*heard, {"role": "user", "content": one.prompt}], one.text, weighed.get(one.generation_id, 0.0)
            )

        ours = [one for one in past if not one.control]
        fresh = [one for one in ours if one.iteration == max(other.iteration for other in ours)]
        lessons = [lesson(one) for one in past if one.generation_id in weighed]
        steps = {"steps": own.steps, "save_steps": own.save_steps, "keep_base": 0.0}
        shared = Shared(ground.shared.train.model_copy(update=steps), ground.shared.policy, ground.shared.launch)
        nothing = plan.scratch / "none"
        job = Job(
            plan.t, plan.seed, before, plan.tasks, folder, nothing, nothing, plan.scratch / "learning",
            plan.first / adapted.WHOLE,
        )  # fmt: skip
        write_jsonl(done, learn(lessons, [lesson(one) for one in fresh], own, shared, job))
    return folder, [dict(row) for _, row in read_jsonl_objects(done)]
