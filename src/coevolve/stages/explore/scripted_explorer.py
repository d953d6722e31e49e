"""An explorer without a model: it samples calls around the focus from tool schemas.

Arguments come from schemas, from earlier observations, and from known tasks.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from coevolve.core.interruptions import contained
from coevolve.core.records import Exploration
from coevolve.core.seeding import derive_seed
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.border import crossed
from coevolve.environments.chains import is_identifier, observed, origin_of, replay, shown_in
from coevolve.environments.environment import Environment, Session
from coevolve.environments.knowledge import Knowledge, fruitless
from coevolve.environments.tool_schema import ToolSchema, to_try, tool_schema
from coevolve.environments.user_habits import Argument, UserHabits, values_at
from coevolve.stages.explore.config import Explore
from coevolve.stages.explore.explorer import Means, record
from coevolve.stages.explore.guidance import draw_tools
from coevolve.stages.explore.requests import Request

GOALS, GOAL_WEIGHTS = (1, 2, 3), (0.5, 0.4, 0.1)  # numbers of goals in a chain, and their probabilities
READ_LAST = 0.25  # share of chains that end in a lookup, so that some tasks ask for an answer
WORLDS = 4  # most worlds to try until a chain reaches all required goals
DEPTH = 2  # levels of calls that serve another call: a remedy or a lookup, and the calls that it needs itself
DRAWS = 3  # draws of arguments for a tool before the explorer gives up the goal
REMEDIES = 3  # attempts at a call with the same arguments, with a remedy after each refusal
OMITTED = 0.7  # share of optional arguments to omit: users seldom give them all
LOOKED_UP = 0.15  # share of values, other than identifiers, to take from an observation where possible
FEW = 3  # known numbers of an argument from which the explorer draws these only
NONSENSE = "qwv zxoq"  # only an argument that takes any text takes this
PARTS = 100  # most values to draw for one call, because a record may hold itself


class ScriptedExplorer:
    """Samples calls around the focus from tool schemas, in any environment with such schemas."""

    def __init__(self, environment: Environment, knowledge: Knowledge, config: Explore) -> None:
        self._environment = environment
        self._knowledge = knowledge
        self._config = config
        self.causes: list[str] = []
        self._any_text: dict[Argument, bool] = {}

    def explore(self, requests: Sequence[Request]) -> Iterator[Exploration]:
        for request in requests:
            causes: list[str] = []
            yield self._explore(request, causes)
            self.causes += causes[:1]

    def _explore(self, request: Request, causes: list[str]) -> Exploration:
        """An exploration up to the first exception of the environment, whose text joins ``causes``."""
        if self._environment.goals:
            return self._constructed(request, causes)
        walk = self._walk(request, causes)
        for number in range(1, WORLDS if request.goals else 1):
            if set(request.goals) <= {call.name for call in walk.chain}:
                break
            seed = derive_seed("another world", request.seed, number)
            request = replace(request, world=self._environment.fresh_world(request.task, seed), seed=seed)
            walk = self._walk(request, causes)
        whole = set(request.goals) <= {call.name for call in walk.chain}
        return record(request, "scripted", walk.chain if whole else [], walk.goals)

    def _constructed(self, request: Request, causes: list[str]) -> Exploration:
        """The exploration of a constructed task, for the requested goal, or a goal of the weak task, or any goal."""
        rng = random.Random(request.seed)
        kinds = self._environment.goals
        near = [name for name in request.task.tags if name in kinds] if request.signal else []
        goal = next(iter([*request.goals, *near]), None) or rng.choice(kinds)
        calls: list[CallOutcome] = []
        with contained(causes):
            task = self._environment.construct(goal, rng.randrange(2**31))
            request = replace(request, world=task.world)
            with closing(self._environment.open()) as session:
                calls = replay(session, task, watch=False).chain
        return record(request, "scripted", calls, [goal])

    def _walk(self, request: Request, causes: list[str]) -> "_Walk":
        walk = _Walk(self._environment, request, self._knowledge, self._config, self._any_text)
        with contained(causes), closing(self._environment.open()) as session:
            walk.go(session)
        return walk


def make(config: Explore, means: Means) -> ScriptedExplorer:
    return ScriptedExplorer(means.environment, means.knowledge, config)


class _Walk:
    """One episode of the scripted explorer. ``chain`` holds the accepted calls, ``goals`` the tools to use."""

    def __init__(
        self,
        environment: Environment,
        request: Request,
        knowledge: Knowledge,
        config: Explore,
        any_text: dict[Argument, bool],
    ) -> None:
        self.chain: list[CallOutcome] = []
        self.goals: list[str] = []
        self._environment = environment
        self._request = request
        self._knowledge = knowledge
        self._left = config.max_calls
        self._tries = config.tries
        self._rng = random.Random(request.seed)
        self._start = Task.create(request.task.environment, "exploration", request.task.turns, request.world, [])
        self._any_text = any_text  # whether an argument of a tool that no task uses takes any text
        self._schemas: dict[str, ToolSchema] = {}
        self._tools: list[dict[str, Any]] | None = None

    def go(self, session: Session) -> None:
        self._session = session
        turn = session.reset(self._start)
        self._tools = turn.tools
        self._schemas = {tool["function"]["name"]: tool_schema(tool["function"]) for tool in turn.tools or []}
        if self._knowledge.terminal:
            self._schemas.pop(self._knowledge.terminal, None)
        self.goals = self._choose(self._request)
        for goal in self.goals:
            self._achieve(goal, "", DEPTH)

    def _choose(self, request: Request) -> list[str]:
        """The tools to use: those of the weakness, or else those in focus, sometimes with other tools."""
        if request.goals:
            return [name for name in request.goals if name in self._schemas]
        tools = [name for name in self._schemas if name not in self._knowledge.reading]
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
        reading = [name for name in self._schemas if name in self._knowledge.reading]
        if habits := self._knowledge.habits:
            reading = [name for name in reading if name in habits.asked]
            alone = bool(reading) and self._rng.random() < habits.lookups / habits.tasks
            return (
                [self._rng.choice([name for name in request.focus if name in reading] or reading)] if alone else goals
            )
        if reading and self._rng.random() < READ_LAST:
            goals.append(self._rng.choice([name for name in request.focus if name in reading] or reading))
        return goals

    def _achieve(self, tool: str, hint: str, depth: int) -> None:
        """Call ``tool``. After a refusal that names a remedy, apply the remedy and try again."""
        for _ in range(DRAWS):
            self._parts = PARTS
            shapes = self._knowledge.habits.shapes.get(tool) if self._knowledge.habits else None
            self._shape = self._rng.choice(shapes) if shapes else None
            arguments = self._record(tool, self._schemas[tool].flat(rng=self._rng), hint, depth)
            if arguments is None or not self._with_texts(tool, arguments):
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
        """Make a call. Returns the refusal, or None if the call was accepted or no calls are left."""
        if self._left <= 0 or self._tries <= 0:
            return None
        before = self._session.digest()
        turn = self._session.step(crossed(call, self._tools))
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
        """The tool that a refusal names, or whose verb it names if the two tools share an argument."""
        words = set(refusal.replace(";", " ").replace(".", " ").replace(",", " ").split())
        others = [name for name in self._schemas if name != tool]
        if named := next((name for name in others if name in words), None):
            return named
        keys = set(self._schemas[tool].flat()["properties"])
        verbs = (name for name in others if name.split("_")[0] in words)
        return next((name for name in verbs if keys & set(self._schemas[name].flat()["properties"])), None)

    def _record(self, tool: str, flat: Mapping[str, Any], hint: str, depth: int) -> dict[str, Any] | None:
        """Arguments for ``tool``, or a record in them, by lookups if need be; None if a required value is missing."""
        record: dict[str, Any] = {}
        for key, schema in flat["properties"].items():
            optional = key not in flat["required"]
            if optional and (self._rng.random() < OMITTED if self._shape is None else key not in self._shape):
                continue
            if values := self._values(tool, key, schema, hint, depth):
                record[key] = self._rng.choice(values)
            elif key in flat["required"]:
                return None
        return record

    def _values(self, tool: str, key: str, schema: Any, hint: str, depth: int) -> list[Any]:
        """Values that fit ``schema``: of a refusal, a lookup or a known task, or else drawn ones, or else null."""
        self._parts -= 1
        if self._parts < 0:
            return []
        whole = self._schemas[tool]
        flat = whole.flat(schema, self._rng)
        empty = whole.fitting([None], schema) if "type" in flat else []
        if hint and (hinted := whole.fitting(_hinted(flat, hint, self._chain_values(key)), flat)):
            return hinted
        if "enum" in flat:
            return whole.fitting(flat["enum"], flat)
        habits = self._knowledge.habits
        if habits and (known := self._as_users(habits, tool, key, flat, depth)) is not None:
            return known
        sources = None if habits else self._knowledge.source(tool, key)
        known_values = whole.fitting(self._knowledge.fitting(tool, key), flat)
        # an identifier is valid only in its own world; a user may know other values
        if sources and (is_identifier(key) or self._rng.random() < LOOKED_UP):
            revealed = self._revealed(key, sources, whole, flat)
            lookups = [name for name in sources if name in self._schemas and name != tool]
            while not revealed and lookups and depth > 0 and self._left > 1 and self._tries > 0:
                tries = self._tries
                lookup = self._rng.choices(lookups, [sources[name] for name in lookups])[0]
                self._achieve(lookup, "", depth - 1)
                revealed = self._revealed(key, sources, whole, flat)
                if self._tries == tries:
                    break  # the lookup was accepted and still reveals no fitting value
            if revealed or is_identifier(key):
                return revealed or empty
        if known_values:
            seen = {json.dumps(value) for call in self.chain for _, value in observed(call.observation)}
            return [value for value in known_values if json.dumps(value) not in seen] or known_values
        drawn = to_try(flat) or self._chain_values(key)
        if not drawn and not empty and habits and flat.get("type") == "string":
            drawn = list(habits.texts_for(key))
        if not drawn and flat.get("type") == "array":
            items = flat.get("prefixItems") or [flat.get("items", True)] * min(max(flat.get("minItems", 1), 1), PARTS)
            each = [self._values(tool, key, item, hint, depth) for item in items]
            drawn = [[self._rng.choice(values) for values in each if values]]
        elif not drawn and (flat["properties"] or flat.get("type") == "object"):
            drawn = [self._record(tool, flat, hint, depth)]
        return whole.fitting(drawn, flat) or empty

    def _as_users(
        self, habits: UserHabits, tool: str, key: str, flat: Mapping[str, Any], depth: int
    ) -> list[Any] | None:
        """Values as users name them: of a lookup that reveals them, or else of this world; None if none is known."""
        whole = self._schemas[tool]
        origins = habits.of(habits.origins, tool, key)
        if origins and self._rng.random() >= habits.said(tool, key):
            lookup, field = self._rng.choices(list(origins), list(origins.values()))[0]
            made = any(call.name == lookup for call in self.chain)
            if not made and depth > 0 and self._left > 1 and lookup in self._schemas and lookup != tool:
                self._achieve(lookup, "", depth - 1)
            for call in reversed(self.chain):
                if call.name == lookup:
                    shown = dict.fromkeys(one.value for one in shown_in(call.observation) if one.field == field)
                    told_apart = [one for one in shown if origin_of(key, one, [call], 1) is not None]
                    return whole.fitting(told_apart, flat)
            return []
        here = values_at(self._start.world, habits.of(habits.homes, tool, key))
        known = whole.fitting(self._knowledge.values.get((tool, key), ()), flat)
        if 0 < len(known) < FEW and not any(isinstance(one, str | bool) for one in known):
            known += whole.fitting(to_try(flat), flat)  # a user may give any number
        return whole.fitting(here, flat) or known or None

    def _with_texts(self, tool: str, arguments: dict[str, Any]) -> bool:
        """Give texts of users to arguments that no task shows and that take any text. False if no text is known."""
        habits, whole = self._knowledge.habits, self._schemas[tool]
        parts = whole.flat()["properties"] if habits else {}
        for key, value in arguments.items():
            part = whole.flat(parts[key]) if key in parts else {}
            shown = (tool, key) in self._knowledge.values or is_identifier(key) or to_try(part)
            if habits and isinstance(value, str) and not shown and self._takes_any_text(tool, key, arguments):
                texts = whole.fitting(habits.texts_for(key), part)
                if not texts:
                    return False
                arguments[key] = self._rng.choice(texts)
        return True

    def _takes_any_text(self, tool: str, key: str, arguments: Mapping[str, Any]) -> bool:
        if (tool, key) not in self._any_text:
            known, made_up = (self._accepts(tool, {**arguments, key: one}) for one in (arguments[key], NONSENSE))
            if not known and not made_up:
                return False  # another argument is wrong: this says nothing
            self._any_text[tool, key] = made_up
        return self._any_text[tool, key]

    def _accepts(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Whether a world takes this call after the chain. A call that breaks its session is a refusal: the value may be odd."""
        calls = [*(ToolCall(call.name, call.arguments) for call in self.chain), ToolCall(tool, dict(arguments))]
        chain: list[CallOutcome] = []
        with contained([]), closing(self._environment.open()) as session:
            chain = replay(session, self._start, [calls]).chain
        return bool(chain) and chain[-1].ok

    def _revealed(self, key: str, sources: Mapping[str, int], whole: ToolSchema, part: Any) -> list[Any]:
        """The fitting values in the latest observation of a source tool that holds any."""
        for call in reversed(self.chain):
            if call.name in sources:
                leaves = observed(call.observation)
                same = [value for name, value in leaves if name == key or (name == "id" and is_identifier(key))]
                if values := whole.fitting(same or [value for _, value in leaves], part):
                    return values
        return []

    def _chain_values(self, key: str) -> list[Any]:
        """Values under this name in earlier calls and observations of this episode."""
        given = [call.arguments[key] for call in self.chain if key in call.arguments]
        return given + [value for call in self.chain for name, value in observed(call.observation) if name == key]


def _hinted(flat: Mapping[str, Any], hint: str, values: Sequence[Any]) -> list[Any]:
    """Values that the words of a refusal suggest."""
    words = hint.replace(";", " ").replace(",", " ").split()
    if "enum" in flat:
        return [word for word in words if word in flat["enum"]]
    if flat.get("type") == "integer":
        return [int(word) for word in words[::-1] if word.isdigit()][:1]
    return [value for value in values if isinstance(value, str) and value in words][:1] or [
        word for word in words[:1] if any(sign.isdigit() for sign in word)
    ]
