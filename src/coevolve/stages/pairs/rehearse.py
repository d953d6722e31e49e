"""Play episodes before training: the policy plays the tasks of the training steps, the failure agent those it failed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from coevolve.core.learnability import recorded
from coevolve.core.progress import bar
from coevolve.core.records import Attempt
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Task
from coevolve.core.trajectories import Trajectory, read_trajectories, write_trajectories
from coevolve.environments.environment import Environment
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.train.config import Train
from coevolve.stages.train.curriculum import Step, stream
from coevolve.stages.train.groups import attempts, requests

PART = 128  # episodes of the failure agent in one file

Play = Callable[[Path, Sequence[RolloutRequest]], list[Trajectory]]


@dataclass(frozen=True)
class Rehearsal:
    """The ``tasks`` of an iteration to play, and the attempts ``before``.

    ``scratch`` is the folder of this rehearsal, and ``open`` opens a model directory as a policy.
    """

    seed: int
    iteration: int
    tasks: Sequence[Task]
    before: Sequence[Attempt]
    scratch: Path
    environment: Environment
    limits: Limits
    open: Callable[[Path], AbstractContextManager[Policy | Replicas]]

    def rehearse(self, model: Path, config: Train) -> list[Trajectory]:
        """The episodes of ``config.steps`` training steps, by step, group and attempt, with the seeds of training.

        Each step's episodes go to a file in the scratch folder, so that a killed rehearsal continues after its last complete step.
        """
        trajectories: list[Trajectory] = []
        records = recorded({}, self.before)
        count = config.steps * config.tasks_per_step * config.group_size
        with self._player(model, count, "pairs") as play:
            for step in range(config.steps):
                now = Step(self.seed, self.iteration, step, config.tasks_per_step)
                tasks = islice(stream(self.tasks, records, config, now), config.tasks_per_step)
                wanted = requests(enumerate(tasks), config.group_size, self.seed, self.iteration, step)
                played = play(self.scratch / f"{step}.parquet", wanted)
                records = recorded(records, attempts(played))
                trajectories += played
        return trajectories

    def play(self, model: Path, tasks: Sequence[Task], count: int, phase: str) -> list[Trajectory]:
        """``count`` episodes that walk through ``tasks`` again and again, with seeds for this ``phase``.

        They go to the scratch folder in parts, so that a killed run continues after its last complete part.
        """
        wanted = []
        for number in range(count):
            sample, index = divmod(number, len(tasks))
            seed = derive_seed(self.seed, phase, self.iteration, index, sample)
            wanted.append(RolloutRequest(tasks[index], seed, self.iteration, 0, index, sample))
        with self._player(model, count, phase) as play:
            return [
                trajectory
                for part, start in enumerate(range(0, count, PART))
                for trajectory in play(self.scratch / phase / f"{part}.parquet", wanted[start : start + PART])
            ]

    @contextmanager
    def _player(self, model: Path, count: int, phase: str) -> Iterator[Play]:
        """A function that returns the episodes in a file, or plays them and writes it, with a progress bar of ``count`` episodes."""
        with self.open(model) as policy, bar(count, f"{phase} {self.iteration}", "episodes") as progress:

            def play(file: Path, wanted: Sequence[RolloutRequest]) -> list[Trajectory]:
                if file.exists():
                    played = read_trajectories(file)
                    progress.update(len(played))
                    return played
                episodes = rollout(policy, self.environment, wanted, self.limits, progress=progress.update)
                played = [episode.trajectory for episode in episodes]
                write_trajectories(file, played)
                return played

            yield play
