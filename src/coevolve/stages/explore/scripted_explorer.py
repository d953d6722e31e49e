"""An explorer that needs no model: it samples calls around the focus from tool schemas.

Arguments are filled from schemas, from what it observed, and from what known tasks teach.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from coevolve.chains import is_identifier, observed, replay
from coevolve.core.params import Explore
from coevolve.core.records import Exploration
from coevolve.core.seeding import derive_seed
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.environment import Environment, Session
from coevolve.knowledge import Knowledge, fruitless
from coevolve.stages.explore.explorer import record
from coevolve.stages.explore.guidance import draw_tools
from coevolve.stages.explore.requests import Request

GOALS, GOAL_WEIGHTS = (1, 2, 3), (0.5, 0.4, 0.1)  # how many tools a chain is meant to use
READ_LAST = 0.25  # share of chains that are meant to end in a lookup, so that there are tasks that ask for an answer
WORLDS = 4  # in which goals that are all to be reached are tried
DEPTH = 2  # tools that are called for the sake of another: a remedy or a lookup, and what that needs in turn
DRAWS = 3  # times that arguments are drawn for a tool, before the goal is given up
REMEDIES = 3  # times that a call is made with the same arguments, a remedy taken after each refusal
OMITTED = 0.7  # share of optional arguments that are left out: users seldom give them all
LOOKED_UP = 0.15  # share of values, other than identifiers, that are taken from an observation where one could be
NUMBERS = range(1, 61)  # tried where nothing is known of a number: counts, amounts, days and minutes lie there
LONGEST = 500  # characters of a value, as JSON, that is taken over: longer ones are documents, which no user would give


class ScriptedExplorer:
    """Samples calls around the focus from tool schemas; works in any environment that has them."""

    def __init__(self, environment: Environment, known: Knowledge, config: Explore) -> None:
        self._environment = environment
        self._knowledge = known
        self._config = config

    def explore(self, wanted: Sequence[Request]) -> Iterator[Exploration]:
        return map(self._explore, wanted)

    def _explore(self, request: Request) -> Exploration:
        if self._environment.goals:
            return self._constructed(request)
        walk = self._walk(request)
        for number in range(1, WORLDS if request.goals else 1):
            if set(request.goals) <= {call.name for call in walk.chain}:
                break
            seed = derive_seed("another world", request.seed, number)
            request = replace(request, world=self._environment.fresh_world(request.task, seed), seed=seed)
            walk = self._walk(request)
        whole = set(request.goals) <= {call.name for call in walk.chain}
        return record(request, "scripted", walk.chain if whole else [], walk.goals)

    def _constructed(self, request: Request) -> Exploration:
        """Of an environment that constructs tasks: one of the goal that is wanted, of the weak task's, or of any."""
        rng = random.Random(request.seed)
        kinds = self._environment.goals
        near = [name for name in request.task.tags if name in kinds] if request.signal else []
        goal = next(iter([*request.goals, *near]), None) or rng.choice(kinds)
        task = self._environment.construct(goal, rng.randrange(2**31))
        with closing(self._environment.open()) as session:
            calls, _, _ = replay(session, task, watch=False)
        return record(replace(request, world=task.world), "scripted", calls, [goal])

    def _walk(self, request: Request) -> "_Walk":
        session = self._environment.open()
        try:
            walk = _Walk(session, request, self._knowledge, self._config)
            walk.go()
        finally:
            session.close()
        return walk


class _Walk:
    """One episode of the scripted explorer. ``chain`` holds the accepted calls, ``goals`` the tools it went for."""

    def __init__(self, session: Session, request: Request, known: Knowledge, config: Explore) -> None:
        self.chain: list[CallOutcome] = []
        self._session = session
        self._known = known
        self._left = config.max_calls
        self._tries = config.tries
        self._rng = random.Random(request.seed)
        start = Task.create(request.task.environment, "exploration", request.task.turns, request.world, [])
        turn = session.reset(start)
        self._schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in turn.tools or []}
        if known.terminal:
            self._schemas.pop(known.terminal, None)
        self.goals = self._choose(request)

    def _choose(self, request: Request) -> list[str]:
        """Tools to use: those of the weakness, or else those in focus; with others for company, or alone."""
        if request.goals:
            return [name for name in request.goals if name in self._schemas]
        tools = [name for name in self._schemas if name not in self._known.reading]
        tools = tools or list(self._schemas)
        goals = [name for name in request.weakness if name in tools] or [
            name for name in request.focus if name in tools
        ]
        goals = goals[: GOALS[-1]]
        company = self._rng.choices(GOALS, GOAL_WEIGHTS)[0] - len(goals)
        for goal in draw_tools(tools, request.tools, company, self._rng):
            if goal not in goals:
                goals.append(goal)
        self._rng.shuffle(goals)
        reading = [name for name in self._schemas if name in self._known.reading]
        if reading and self._rng.random() < READ_LAST:
            goals.append(self._rng.choice([name for name in request.focus if name in reading] or reading))
        return goals

    def go(self) -> None:
        for goal in self.goals:
            self._achieve(goal, "", DEPTH)

    def _achieve(self, tool: str, hint: str, depth: int) -> None:
        """Call ``tool``; after a refusal that names a remedy, take the remedy and try again."""
        for _ in range(DRAWS):
            arguments = self._arguments(tool, hint, depth)
            if arguments is None:
                return
            for _ in range(REMEDIES):
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
            if key not in required and self._rng.random() < OMITTED:
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
            return list(NUMBERS)
        if kind in ("number", "float"):
            return [float(value) for value in NUMBERS]
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
    return (kinds is None or isinstance(value, kinds)) and len(json.dumps(value)) < LONGEST
