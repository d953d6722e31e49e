"""Does a generator that is trained hit its target? An instrument: tasks whose difficulty is known, and agents whose skill is.

    coevolve env install reasoning_gym && python benchmarks/difficulty.py

The tiny generator names kinds and levels of reasoning-gym's problems; the environment constructs them, the gates judge them. Who plays is
no model: it gives the right answer with a chance that falls with the level, sigma(a + rise t - 1.5 level), where `a` differs from kind
to kind. So the chance p of every task is known, and nothing is estimated: of what each iteration's generator writes, the share with p in
[0.4, 0.6], and the mean distance of p to alpha, beside what the generator of before any training writes at the same time. All else is
the section `generate` of params.yaml.
"""

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

import yaml

from coevolve.core.attempts import attempt_of
from coevolve.core.records import Attempt, Generation
from coevolve.core.seeding import derive_seed, generator
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.knowledge import learn
from coevolve.policies.agent_prompt import render_call
from coevolve.policies.loading import playing
from coevolve.policies.policy import Conversation, Reply
from coevolve.rollout import Limits
from coevolve.stages.explore.requests import written
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.generate.calibration import MIDDLE
from coevolve.stages.generate.config import Generate
from coevolve.stages.generate.iteration import GeneratorContext, Plan, generate
from coevolve.stages.generate.spec_outcomes import settled
from coevolve.stages.generator.tiny_generator import start
from coevolve.stages.params import Params, load
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.train.learner import Shared
from coevolve.stages.verify.judge import accepted, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_rates import pass_rates, with_pass_rate

FALL = 1.5  # in logits, from a level to the next
SKILLS = (-1.0, 5.0)  # between which kinds lie, at level 0


class Skilled:
    """Right with the chance of the task's kind, and wrong otherwise."""

    name = "of known skill"

    def __init__(self, seed: int, rise: float) -> None:
        self._seed, self._rise, self.iteration = seed, rise, 0

    def chance(self, kind: str) -> float:
        name, _, level = kind.rpartition("_")
        skill = generator("skill", self._seed, name).uniform(*SKILLS)
        return 1.0 / (1.0 + math.exp(-(skill + self._rise * self.iteration - FALL * int(level))))

    def begin(self, conversations: Sequence[Conversation]) -> None:
        return

    def act(self, conversations: Sequence[Conversation]) -> list[Reply]:
        replies = []
        for one in conversations:
            right = generator("luck", one.seed).random() < self.chance(one.task.tags[0])
            call = one.task.reference[0][0] if right else ToolCall("answer", {"value": "no idea"})
            replies.append(Reply(render_call(call), [call]))
        return replies


@dataclass
class Instrument:
    """Where generations are tried, and by whom: ``samples`` episodes are a probe, or a visit in training."""

    environment: Environment
    agent: Skilled
    params: Params
    seed: int
    samples: int

    def rates(self, tasks: Sequence[Task], seed: int) -> dict[str, float]:
        limits = Limits.of(self.params.policy)
        return pass_rates(self.agent, self.environment, tasks, limits, self.samples, seed, lambda _: None)

    def visits(self, tasks: Sequence[Task], t: int) -> list[Attempt]:
        """Each task is played once."""
        solved = self.rates(tasks, derive_seed(self.seed, "visit", t))
        return [
            attempt_of(
                task.task_id, t, row, [float(n < solved[task.task_id] * self.samples) for n in range(self.samples)]
            )
            for row, task in enumerate(tasks)
        ]

    def tried(self, tasks: Sequence[Task], new: Sequence[Generation], t: int) -> list[tuple[Generation, Task | None]]:
        """Each generation with its outcome, and the task that came of it."""
        world = self.environment
        explorer = ScriptedExplorer(world, learn(world, tasks), self.params.explore)
        explorations = list(explorer.explore(written(world, tasks, new, t, self.seed)))
        synthesizer = ScriptedSynthesizer(world, tasks, self.seed)
        candidates = synthesize(synthesizer, explorations, len(explorations), lambda _: None)
        panels = {name: world.tasks(name) for name in world.panels}
        library = Library(tasks, panels, self.params.verify.near_duplicate)
        judged = verify(world.name, [json.dumps(asdict(one)) for one in candidates], library)
        rates = self.rates(accepted(judged), self.seed)
        judged = [with_pass_rate(verdict, task, rates) for verdict, task in judged]
        found = {task.task_id: task for _, task in judged if task is not None}
        return [(one, found.get(one.task_id or "")) for one in settled(new, explorations, judged, self.samples)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--count", type=int, default=128, help="generations of an iteration")
    parser.add_argument("--samples", type=int, default=8, help="episodes of a probe, and of a visit in training")
    parser.add_argument("--rise", type=float, default=0.0, help="of the agent's skill in an iteration, in logits")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the section generate")
    args = parser.parse_args()
    params, environment = load(), make("reasoning_gym")
    changed = {key: yaml.safe_load(value) for key, value in (one.split("=", 1) for one in args.set)}
    own = Generate.model_validate({**params.generate.model_dump(), "model": "tiny", **changed})
    print("seed | t | accepted | p to alpha | of the untrained | in the middle | of the untrained | steps | nats")
    for seed in args.seeds:
        instrument = Instrument(environment, Skilled(seed, args.rise), params, seed, args.samples)
        with tempfile.TemporaryDirectory() as place:
            run(Path(place), own, instrument, args.iterations, args.count)


def run(place: Path, own: Generate, instrument: Instrument, iterations: int, count: int) -> None:
    environment, params, seed = instrument.environment, instrument.params, instrument.seed
    tasks = list(environment.tasks("seed"))
    attempts: list[Attempt] = []
    generations: list[Generation] = []
    folder = first = place / "generators/0"
    start(first, own.model, own.revision, environment, tasks)
    play = partial(playing, config=params.policy, temperature=own.temperature)
    ground = GeneratorContext(
        environment, Limits.of(params.policy), play, Shared(params.train, params.policy, params.launch)
    )
    for t in range(iterations):
        instrument.agent.iteration = t
        attempts += instrument.visits(tasks, t)
        scratch = place / f"scratch/{t}"
        scratch.mkdir(parents=True)
        made = generate(Plan(seed, t, tasks, attempts, generations, count, folder, first, scratch), own, ground)
        folder = scratch / "generator"
        new = instrument.tried(tasks, made.new, t)
        report(seed, t, new, instrument.agent, made.figures)
        generations += [one for one, _ in new]
        tasks += [task for one, task in new if task is not None and not one.control]


def report(
    seed: int,
    t: int,
    new: Sequence[tuple[Generation, Task | None]],
    agent: Skilled,
    figures: Sequence[dict[str, float]],
) -> None:
    cells: list[list[str]] = []
    for control in (False, True):
        known = [agent.chance(task.tags[0]) for one, task in new if one.control == control and task is not None]
        middle = [MIDDLE[0] <= one <= MIDDLE[1] for one in known]
        cells.append([f"{fmean(many):.3f}" if many else "-" for many in ([abs(one - 0.5) for one in known], middle)])
    taken = sum(task is not None for one, task in new if not one.control)
    total = sum(not one.control for one, _ in new)
    (far, hits), (far_first, hits_first) = cells
    nats = f"{figures[-1]['spec_kl']:.2f}" if figures else "-"
    print(
        f"{seed} | {t} | {taken} of {total} | {far} | {far_first} | {hits} | {hits_first} | {len(figures)} | {nats}",
        flush=True,
    )


if __name__ == "__main__":
    main()
