"""TextWorld (Microsoft) as a source of seeded text games, with walkthroughs and graded rewards. Runs in a worker.

A game is made from a seed and compiled at its first use, which takes seconds; the file stays in the cache. Its quest is the
goal, with its points as partial reward. A task that the loop synthesizes has another goal (``goal: state`` in its world): the
facts of the world must end as its reference leaves them.
"""

import hashlib
import json
import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.scratch import once
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments import wire
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import Hosted
from coevolve_environments.episode import PARTIAL, AdapterSession, tool

VERSION = 1  # of the rules that turn games into tasks
COUNTS = {"seed": 64, "validation": 24, "test": 24, "hard": 24}
FIRST_SEED = {"seed": 10_000, "validation": 20_000, "test": 30_000, "hard": 40_000}
# the numbers of rooms, objects, and quests (all must be done), and the most commands of a quest
SIZES = {
    "plain": {"rooms": 3, "objects": 5, "quests": 2, "length": 2},
    "hard": {"rooms": 5, "objects": 8, "quests": 2, "length": 3},
}
MAX_COMMAND = 200  # most characters of a command
TOOLS = [
    tool(
        "act",
        "Do something in the world, by a command such as 'go east' or 'take lamp from table'",
        command="one command in plain words",
    ),
    tool("commands", "The commands that the world accepts right now"),
]


class TextWorld(Environment):
    """Games made from seeds."""

    name = "textworld"
    license = "MIT"
    panels = ("validation", "test", "hard")

    def __init__(self) -> None:
        recipe = content_hash([VERSION, COUNTS, FIRST_SEED, SIZES])
        self.fingerprint = f"textworld-{version('textworld')}-{recipe[:12]}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _tasks(split)

    def tools(self) -> Sequence[dict[str, Any]]:
        return TOOLS

    def open(self) -> "TextWorldSession":
        return TextWorldSession()

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        """Another game of the same size, without its quest. It is one of a few games, so most are already in the cache."""
        worlds = ({"seed": 50_000 + (seed + step) % 64, "size": task.world["size"]} for step in range(64))
        return {**next(world for world in worlds if _made(world)), "goal": "state"}


class Commands(AdapterSession):
    """A world of commands in plain words. An impossible command is refused and changes nothing."""

    def act(self, call: ToolCall) -> Observation:
        if call.name == "commands" and not call.arguments:
            listed = json.dumps([{"command": one} for one in sorted(self.commands())])
            return Observation("tool", listed)
        command = call.arguments.get("command")
        if call.name != "act" or set(call.arguments) != {"command"} or not isinstance(command, str):
            return Observation("tool", "expected act(command) or commands()", error=True)
        return self.command(command)

    @abstractmethod
    def commands(self) -> Iterable[str]:
        """The possible commands."""

    @abstractmethod
    def command(self, words: str) -> Observation:
        """Carry out a command."""


class TextWorldSession(Commands):
    """A game."""

    environment = "textworld"
    _game: Any = None

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self._game = started(task.world)
        self._state = self._game.reset()
        self._start = _facts(self._state)
        return TOOLS

    def commands(self) -> Iterable[str]:
        return list(self._state.admissible_commands)

    def command(self, words: str) -> Observation:
        if self._state.done:
            return Observation("tool", "the game is over", error=True, done=True)
        if words not in self._state.admissible_commands:
            return impossible(words)
        self._state, _, _ = self._game.step(words)
        return Observation("tool", _plain(self._state.feedback))

    def judge(self, task: Task) -> Score:
        if task.world.get("goal") == "state":
            # a reference that changes nothing asks for nothing
            reached = _facts(self._state) == _wanted(task) != self._start
            return Score(float(reached), {"state": reached})
        won = bool(self._state.won)
        share = (self._state.score or 0) / (self._state.max_score or 1)
        return Score(1.0 if won else PARTIAL * share, {"won": won, "not_lost": not self._state.lost})

    def digest(self) -> str:
        return content_hash(list(_facts(self._state)))

    def close(self) -> None:
        if self._game is not None:
            self._game.close()
        self.task = self._game = None


def impossible(words: str, reason: str = "") -> Observation:
    return Observation("tool", f"not possible here: {words[:MAX_COMMAND]}{reason}", error=True)


def _plain(text: str) -> str:
    """Feedback without the status line and the prompt."""
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line and not line.lstrip().startswith(">")).strip()


def _facts(state: Any) -> tuple[str, ...]:
    return tuple(sorted(str(fact) for fact in state.facts))


@lru_cache(maxsize=256)
def _wanted(task: Task) -> tuple[str, ...]:
    """The facts after the reference."""
    game = started(task.world)
    state = game.reset()
    for call in task.calls:
        command = call.arguments.get("command")
        if call.name == "act" and command in state.admissible_commands:
            state, _, _ = game.step(command)
    facts = _facts(state)
    game.close()
    return facts


def _made(world: dict[str, Any]) -> tuple[Any, Any] | None:
    """The game of a world and its options; None if no quest of this size fits the map."""
    from textworld import GameOptions
    from textworld.generator import QuestGenerationError, make_game

    size = SIZES[world["size"]]
    options = GameOptions()
    options.seeds = world["seed"]
    options.nb_rooms, options.nb_objects = size["rooms"], size["objects"]
    options.nb_parallel_quests, options.quest_length = size["quests"], size["length"]
    try:
        return make_game(options), options
    except QuestGenerationError:
        return None


def folder() -> Path:
    """The folder of games and lists of tasks."""
    place = Path(os.environ.get("COEVOLVE_CACHE", tempfile.gettempdir())) / "textworld"
    place.mkdir(parents=True, exist_ok=True)
    return place


def _file(world: dict[str, Any]) -> Path:
    """The compiled game. It is made once, even if several workers need it at the same time."""
    from textworld.generator import compile_game

    key = hashlib.sha256(f"{version('textworld')} {world['seed']} {SIZES[world['size']]}".encode()).hexdigest()[:16]
    target = folder() / f"{key}.z8"
    if not target.exists():
        if (made := _made(world)) is None:
            raise CoevolveError(f"textworld makes no game of seed {world['seed']} and size {world['size']}")
        game, options = made
        with tempfile.TemporaryDirectory(dir=folder()) as place:
            options.path, options.file_ext = f"{place}/{key}.z8", ".z8"
            compile_game(game, options)
            os.replace(f"{place}/{key}.json", folder() / f"{key}.json")
            os.replace(f"{place}/{key}.z8", target)
    return target


def started(world: dict[str, Any]) -> Any:
    """TextWorld's game of a world, with the state that a session reads."""
    import textworld

    wanted = textworld.EnvInfos(
        feedback=True, admissible_commands=True, facts=True, score=True, max_score=True, won=True, lost=True
    )
    return textworld.start(str(_file(world)), wanted)


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    return kept(TextWorld().fingerprint, split, _generated)


def kept(fingerprint: str, split: str, generate: Callable[[str], list[Task]]) -> tuple[Task, ...]:
    """The tasks of a split: made once (a fraction of a second each), then read from the cache.

    If several processes need them at the same time, one makes them and the others wait.
    """
    file = folder() / f"{fingerprint}-{split}.jsonl"
    if not file.exists():
        lines = (wire.dumps(task) + "\n" for task in generate(split))
        once(file, lambda whole: whole.write_text("".join(lines), encoding="utf-8"))
    return tuple(wire.to_task(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines())


def _generated(split: str) -> list[Task]:
    size = "hard" if split == "hard" else "plain"
    found: dict[str, Task] = {}
    seed = FIRST_SEED[split]
    while len(found) < COUNTS[split]:
        world = {"seed": seed, "size": size}
        seed += 1
        if made := _made(world):
            game = made[0]
            commands = game.metadata["walkthrough"]
            # the reference first lists the possible commands: it shows where commands come from
            calls = [ToolCall("commands"), *(ToolCall("act", {"command": command}) for command in commands)]
            task = Task.create("textworld", split, [game.objective], world, [calls], [f"{len(commands)} commands"])
            found[task.task_id] = task
    return list(found.values())


HOSTED = Hosted("textworld", f"{__name__}:TextWorld", Path(__file__).parents[1] / "requirements/textworld.txt", each=64)
