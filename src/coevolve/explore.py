"""Exploration of the real environment around the agent's weaknesses.

A signal, with the failed trajectories that show it, becomes a request: where to start, and which tools to look at.
An explorer answers requests with chains of calls that the environment accepted. The scripted one needs no model:
it fills arguments from schemas, from what it observed, and from what known tasks teach.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coevolve.environments.base import Environment, Session
from coevolve.knowledge import Knowledge, fruitless, learn
from coevolve.params import Explore
from coevolve.records import CallOutcome, Exploration, Signal, Task, ToolCall, Trajectory, content_hash
from coevolve.seeding import derive_seed, generator
from coevolve.wording import is_identifier, observed

GOALS, GOAL_WEIGHTS = (1, 2, 3), (0.5, 0.4, 0.1)  # how many tools a chain is meant to use
LOOKED_UP = 0.15  # share of values, other than identifiers, that are taken from an observation where one could be
SHOWN = 12  # calls of a failed trajectory that the context shows


@dataclass(frozen=True)
class Request:
    """One exploration to make: start in ``world`` of ``task``, around the weakness of ``signal`` (None: anywhere).

    ``context`` is the reflection on the weakness: what was asked, what was tried, what came back, which tools are
    in focus.
    """

    exploration_id: str
    iteration: int
    signal: Signal | None
    task: Task
    world: dict[str, Any]
    context: dict[str, Any]
    seed: int


class Explorer(Protocol):
    name: str

    def explore(self, request: Request) -> Exploration:
        """What was found; an exploration without calls found nothing."""
        ...


def requests(
    environment: Environment,
    tasks: Sequence[Task],
    trajectories: Sequence[Trajectory],
    signals: Sequence[Signal],
    count: int,
    iteration: int,
    seed: int,
) -> list[Request]:
    """``count`` requests, the kinds of signals in turn and each kind's signals in turn; random ones without signals."""
    by_id = {task.task_id: task for task in tasks}
    shown = {trajectory.trajectory_id: trajectory for trajectory in trajectories}
    kinds: dict[str, list[Signal]] = {}
    for one in signals:
        kinds.setdefault(one.kind, []).append(one)
    for kind, found in kinds.items():
        generator("requests", seed, iteration, str(kind)).shuffle(found)
    queues = list(kinds.values())
    made = []
    for number in range(count):
        rng = generator("request", seed, iteration, number)
        signal: Signal | None = None
        if queues:
            queue = queues[number % len(queues)]
            signal = queue[number // len(queues) % len(queue)]
        failed = _failed(signal, shown)
        name = (signal.task_id if signal else None) or (failed.task_id if failed else None)
        task = by_id.get(name or "") or rng.choice(tasks)
        fresh: Callable[[Task, int], dict[str, Any]] | None = getattr(environment, "fresh_world", None)
        world = fresh(task, derive_seed("world", seed, iteration, number)) if fresh else task.world
        exploration_id = content_hash(["exploration", seed, iteration, number, signal and signal.signal_id])
        context = reflect(signal, task, failed)
        made.append(Request(exploration_id, iteration, signal, task, world, context, rng.randrange(2**62)))
    return made


def _failed(signal: Signal | None, shown: Mapping[str, Trajectory]) -> Trajectory | None:
    """The trajectory that shows the weakness: a failed one, if there is one."""
    known = [shown[one] for one in signal.trajectory_ids if one in shown] if signal else []
    return next((one for one in known if not one.success), known[0] if known else None)


def reflect(signal: Signal | None, task: Task, failed: Trajectory | None) -> dict[str, Any]:
    """The exploration context: what was asked, what the agent did, what the environment answered, what to look at."""
    wanted = [call.name for turn in task.reference for call in turn]
    made = failed.calls if failed else []
    focus = list(signal.pattern) if signal and signal.pattern else list(dict.fromkeys(wanted))
    return {
        "kind": str(signal.kind) if signal else "random",
        "instruction": task.turns,
        "focus": focus if signal else [],
        "tried": [{"name": call.name, "arguments": call.arguments, "ok": call.ok} for call in made[:SHOWN]],
        "feedback": [call.observation[:200] for call in made if not call.ok][:SHOWN],
        "unused": [name for name in dict.fromkeys(wanted) if name not in {call.name for call in made}],
        "score": failed.score if failed else None,
    }


def explore(explorer: Explorer, wanted: Sequence[Request], progress: Callable[[int], object]) -> list[Exploration]:
    """Those explorations that found something."""
    found = []
    for request in wanted:
        exploration = explorer.explore(request)
        if exploration.calls:
            found.append(exploration)
        progress(1)
    return found


class ScriptedExplorer:
    """Samples calls around the focus from tool schemas; works in any environment that has them."""

    name = "scripted"

    def __init__(
        self, environment: Environment, tasks: Sequence[Task], trajectories: Sequence[Trajectory], knobs: Explore
    ) -> None:
        self._environment = environment
        self._knowledge = learn(environment, tasks, trajectories)
        self._knobs = knobs

    def explore(self, request: Request) -> Exploration:
        session = self._environment.open()
        try:
            walk = _Walk(session, request, self._knowledge, self._knobs)
            walk.go()
        finally:
            session.close()
        signals = [request.signal.signal_id] if request.signal else []
        return Exploration(
            exploration_id=request.exploration_id,
            environment=self._environment.name,
            iteration=request.iteration,
            signal_ids=signals,
            task_id=request.task.task_id,
            world=request.world,
            context={**request.context, "goals": walk.goals},
            calls=walk.chain,
            explorer=self.name,
        )


class _Walk:
    """One episode of the scripted explorer. ``chain`` holds the accepted calls, ``goals`` the tools it went for."""

    def __init__(self, session: Session, request: Request, known: Knowledge, knobs: Explore) -> None:
        self.chain: list[CallOutcome] = []
        self._session = session
        self._known = known
        self._left = knobs.max_calls
        self._tries = knobs.tries
        self._rng = random.Random(request.seed)
        start = Task.create(request.task.environment, "exploration", request.task.turns, request.world, [])
        turn = session.reset(start)
        self._schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in turn.tools or []}
        if known.terminal:
            self._schemas.pop(known.terminal, None)
        self.goals = self._choose([name for name in request.context["focus"] if name in self._schemas])

    def _choose(self, focus: list[str]) -> list[str]:
        """Tools to use: those in focus that may change something, their neighbours in arguments, and any."""
        tools = [name for name in self._schemas if name not in self._known.reading]
        tools = tools or list(self._schemas)
        acting = [name for name in focus if name in tools]
        keys = {key for name in acting for key in self._properties(name)}
        near = [name for name in tools if keys & set(self._properties(name))]
        goals: list[str] = []
        for _ in range(self._rng.choices(GOALS, GOAL_WEIGHTS)[0]):
            pools = [pool for pool in (acting, near, tools) if pool]
            weights = {3: (0.45, 0.35, 0.2), 2: (0.6, 0.4), 1: (1.0,)}[len(pools)]
            pool = self._rng.choices(pools, weights)[0]
            # what the dataset seldom asks for comes first: exploration is for what training does not show
            goal = self._rng.choices(pool, [1.0 / (1 + self._known.uses[name]) for name in pool])[0]
            if goal not in goals:
                goals.append(goal)
        reading = [name for name in self._schemas if name in self._known.reading]
        if reading and self._rng.random() < 0.25:
            goals.append(self._rng.choice([name for name in focus if name in reading] or reading))
        return goals

    def go(self) -> None:
        for goal in self.goals:
            self._achieve(goal, "", 2)

    def _achieve(self, tool: str, hint: str, depth: int) -> None:
        """Call ``tool``; after a refusal that names a remedy, take the remedy and try again."""
        for _ in range(3):
            arguments = self._arguments(tool, hint, depth)
            if arguments is None:
                return
            for _ in range(3):
                refusal = self._call(ToolCall(tool, arguments))
                if refusal is None:
                    return
                remedy = self._remedy(tool, refusal)
                if remedy is None or depth == 0:
                    break
                self._achieve(remedy, refusal, depth - 1)
            if self._tries <= 0 or self._left <= 0:
                return

    def _call(self, call: ToolCall) -> str | None:
        """Make a call; None if it was accepted (or nothing more can be), else the refusal."""
        if self._left <= 0 or self._tries <= 0:
            return None
        before = self._session.digest()
        turn = self._session.step(call)
        if turn.error:
            self._tries -= 1
            return turn.content
        if fruitless(turn.content) and self._session.digest() == before:
            self._tries -= 1
            return None
        if turn.done:
            self._left = 0
            return None
        self._left -= 1
        self.chain.append(CallOutcome(call.name, call.arguments, True, turn.content))
        return None

    def _remedy(self, tool: str, refusal: str) -> str | None:
        """The tool that a refusal speaks of: by its name, or by its verb if it takes one of the same arguments."""
        words = set(refusal.replace(";", " ").replace(".", " ").replace(",", " ").split())
        others = [name for name in self._schemas if name != tool]
        named = [name for name in others if name in words]
        keys = set(self._properties(tool))
        verbs = [name for name in others if name.split("_")[0] in words and keys & set(self._properties(name))]
        return next(iter(named or verbs), None)

    def _properties(self, tool: str) -> dict[str, Any]:
        found: dict[str, Any] = self._schemas[tool].get("properties", {})
        return found

    def _arguments(self, tool: str, hint: str, depth: int) -> dict[str, Any] | None:
        """Arguments for ``tool``, looking up what only a lookup reveals; None if one cannot be filled."""
        required = self._schemas[tool].get("required", [])
        arguments: dict[str, Any] = {}
        for key, schema in self._properties(tool).items():
            if key not in required and self._rng.random() < 0.7:
                continue
            values = self._candidates(tool, key, schema, hint, depth)
            if values:
                arguments[key] = self._rng.choice(values)
            elif key in required:
                return None
        return arguments

    def _candidates(self, tool: str, key: str, schema: Mapping[str, Any], hint: str, depth: int) -> list[Any]:
        if hint and (told := _told(schema, hint, self._chain_values(key))):
            return told
        if "enum" in schema:
            return list(schema["enum"])
        sources = self._known.source(tool, key)
        known = [value for value in self._known.fitting(tool, key) if _fits(value, schema)]
        # an identifier is worth something in its own world only; other values a person may know as well
        if sources and (is_identifier(key) or self._rng.random() < LOOKED_UP):
            found = self._revealed(key, sources, schema)
            lookups = [name for name in sources if name in self._schemas and name != tool]
            while not found and lookups and depth > 0 and self._left > 1 and self._tries > 0:
                tries = self._tries
                lookup = self._rng.choices(lookups, [sources[name] for name in lookups])[0]
                self._achieve(lookup, "", depth - 1)
                found = self._revealed(key, sources, schema)
                if self._tries == tries:
                    break  # it was accepted, and still reveals nothing that fits
            if found or is_identifier(key):
                return found
        if known:
            seen = {json.dumps(value) for call in self.chain for _, value in observed(call.observation)}
            return [value for value in known if json.dumps(value) not in seen] or known
        kind = schema.get("type")
        if kind == "integer":
            return list(range(1, 61))
        if kind in ("number", "float"):
            return [float(value) for value in range(1, 61)]
        return [True, False] if kind == "boolean" else self._chain_values(key)

    def _revealed(self, key: str, sources: Mapping[str, int], schema: Mapping[str, Any]) -> list[Any]:
        """Values in this episode's observations of the source tools: of the latest that held any."""
        for call in reversed(self.chain):
            if call.name in sources:
                leaves = observed(call.observation)
                same = [value for name, value in leaves if name == key or (name == "id" and is_identifier(key))]
                values = [value for value in same or [value for _, value in leaves] if _fits(value, schema)]
                if values:
                    return values
        return []

    def _chain_values(self, key: str) -> list[Any]:
        """What earlier calls of this episode gave or found under this name."""
        given = [call.arguments[key] for call in self.chain if key in call.arguments]
        return given + [value for call in self.chain for name, value in observed(call.observation) if name == key]


def _told(schema: Mapping[str, Any], hint: str, values: Sequence[Any]) -> list[Any]:
    """Values that the words of a refusal give."""
    words = hint.replace(";", " ").replace(",", " ").split()
    if "enum" in schema:
        return [word for word in words if word in schema["enum"]]
    if schema.get("type") == "integer":
        return [int(word) for word in words[::-1] if word.isdigit()][:1]
    return [value for value in values if isinstance(value, str) and value in words][:1] or [
        word for word in words[:1] if any(sign.isdigit() for sign in word)
    ]


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "float": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:
    kinds = _TYPES.get(str(schema.get("type")))
    if isinstance(value, bool) and schema.get("type") != "boolean":
        return False
    return (kinds is None or isinstance(value, kinds)) and len(json.dumps(value)) < 500
