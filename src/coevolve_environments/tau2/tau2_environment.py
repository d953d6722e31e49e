"""The shop and the airline of τ²-bench (arXiv 2506.07982): data, tasks and tools of two pinned wheels. Runs in a worker.

This is *not* τ²'s protocol. There an LLM plays the user from a script, and replies are judged too. Here the script is the
instruction, and a task succeeds as in `coevolve.environments.questions`: the database must end as the reference leaves it. If the
reference changes nothing, the agent must look up the same records. The tool ``policy`` returns the domain's policy.
"""

import copy
import json
from collections import ChainMap
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from coevolve.core.hashing import state_hash
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.hosted import Hosted
from coevolve.environments.questions import Question, asked, met
from coevolve_environments.episode import AdapterSession, tool

EACH = 4  # one of so many goals of the training split goes to validation
# the reference of this task is refused: its gift card does not cover the difference
UNSOLVABLE = {("retail", "105")}
LOOKUPS = ("get_", "find_", "list_", "search_", "calculate", "transfer_")  # beginnings of tools that change nothing
POLICY = tool("policy", "The rules that an agent of this domain has to keep")
Record = dict[str, Any]


class Records(ChainMap[str, Record]):
    """The changed records of a table before its initial ones. A record is copied when it is read, since the reader may change it."""

    def __getitem__(self, key: str) -> Record:
        changed, initial = self.maps
        if key not in changed:
            changed[key] = copy.deepcopy(initial[key])
        return changed[key]


class Tau2(Environment):
    """A domain's tasks. A subclass sets ``name``, ``domain`` and ``version``."""

    domain: str
    version: str
    license = "MIT"
    panels = ("validation", "test")

    def __init__(self) -> None:
        self.fingerprint = f"{self.name}-{self.version}"

    def load_tasks(self, split: str) -> Sequence[Task]:
        return asked(self.name, split, questions(self.domain, split))

    def tools(self) -> Sequence[dict[str, Any]]:
        return _tools(self.domain)

    def open(self) -> "Tau2Session":
        return Tau2Session(self.name, self.domain)


class Tau2Session(AdapterSession):
    """An episode. ``changed`` holds the records that differ from the initial database, by table and key."""

    def __init__(self, environment: str, domain: str) -> None:
        self.environment, self._domain = environment, domain

    def begin(self, task: Task) -> list[dict[str, Any]]:
        self.changed: dict[str, dict[str, Record]] = {}
        self.heard: list[str] = []
        return _tools(self._domain)

    def act(self, call: ToolCall) -> Observation:
        functions = {one["function"]["name"]: one["function"] for one in _tools(self._domain)}
        known = functions[call.name]["parameters"]["properties"] if call.name in functions else {}
        if call.name not in functions or set(call.arguments) - set(known):
            return Observation("tool", f"there is no tool {call.name[:60]!r} with these arguments", error=True)
        if call.name == "policy":
            said: Any = read(self._domain, "policy.md")
        elif "**" in str(call.arguments.get("expression")):
            return Observation("tool", "expected an expression of numbers, + - * / and parentheses", error=True)
        else:
            initial, changed = _database(self._domain), copy.deepcopy(self.changed)
            table = ChainMap if call.name.startswith(LOOKUPS) else Records
            tables = {name: table(changed.setdefault(name, {}), records) for name, records in initial.items()}
            try:
                said = _server(self._domain)._execute_tool(tables, call.name, call.arguments)
            except Exception as error:  # as in the wheels' servers, every error is a refusal
                return Observation("tool", str(error) or type(error).__name__, error=True)
            kept = {
                name: {key: record for key, record in records.items() if record != initial[name].get(key)}
                for name, records in changed.items()
            }
            self.changed = {name: records for name, records in kept.items() if records}
        self.heard.append(said if isinstance(said, str) else json.dumps(said))
        return Observation("tool", self.heard[-1])

    def judge(self, task: Task) -> Score:
        end, answers = _truth(self._domain, task)
        checks = met(state_hash({}), end, answers, self.digest(), self.heard)
        return Score(float(all(checks.values())), checks)

    def digest(self) -> str:
        return state_hash(self.changed) if self.task else ""


@lru_cache(maxsize=4096)
def _truth(domain: str, task: Task) -> tuple[str, list[str]]:
    """The state after the reference, and its answers."""
    session = Tau2Session("", domain)
    session.reset(Task.create("", "", [], {}, []))
    for call in task.calls:
        session.step(call)
    return session.digest(), session.heard


@cache
def _server(domain: str) -> Any:
    """The MCP server in the wheel of a domain, which also holds τ²'s data."""
    return import_module(f"tau2_{domain}_mcp.server")


@cache
def _database(domain: str) -> dict[str, dict[str, Record]]:
    """The initial database. Callers must not change it."""
    found: dict[str, dict[str, Record]] = json.loads(read(domain, "db.json"))
    return found


@cache
def _tools(domain: str) -> list[dict[str, Any]]:
    """The wheel's schemas, without the key by which its server tells clients apart."""
    found = [POLICY]
    for one in _server(domain)._list_tools():
        if one["name"] in _server(domain).BUSINESS_TOOLS:
            schema = one["inputSchema"]
            properties = {key: value for key, value in schema["properties"].items() if key != "state_key"}
            function = {"name": one["name"], "description": one["description"]}
            found.append(
                {"type": "function", "function": {**function, "parameters": {**schema, "properties": properties}}}
            )
    return found


@cache
def read(domain: str, file: str) -> str:
    """The text of a file of the domain's data."""
    return (files(f"tau2_{domain}_mcp") / "data/tau2/domains" / domain / file).read_text(encoding="utf-8")


@cache
def _tasks(domain: str) -> tuple[Record, ...]:
    every = json.loads(read(domain, "tasks.json"))
    return tuple(task for task in every if _calls(task) and (domain, task["id"]) not in UNSOLVABLE)


def questions(domain: str, split: str) -> Iterator[Question]:
    """The script of each task's user as an instruction, and the calls of its reference.

    Tasks without an executed call in their reference are omitted: they ask an agent to refuse, so doing nothing would solve
    them. The test split is complete. The training split omits tasks whose reference is also in the test split.
    """
    sides = json.loads(read(domain, "split_tasks.json"))
    tested, trained = (
        [task for task in _tasks(domain) if task["id"] in set(sides[side])] for side in ("test", "train")
    )
    if split == "test":
        found = tested
    else:
        known = set(map(_goal, tested))
        goals = [goal for goal in dict.fromkeys(map(_goal, trained)) if goal not in known]
        wanted = {goal for number, goal in enumerate(goals) if (number % EACH == EACH - 1) == (split == "validation")}
        found = [task for task in trained if _goal(task) in wanted]
    for task in found:
        script = task["user_scenario"]["instructions"]
        told = [script["reason_for_call"], script["known_info"], script["unknown_info"], script["task_instructions"]]
        calls = [ToolCall(name, arguments) for name, arguments in _calls(task)]
        yield "\n\n".join(one.strip() for one in told if one), {}, calls


def _goal(task: Record) -> str:
    """The calls of the task's reference, in any order."""
    return json.dumps(sorted(map(json.dumps, _calls(task))))


def _calls(task: Record) -> list[tuple[str, dict[str, Any]]]:
    return [(one["name"], one["arguments"]) for one in task["evaluation_criteria"]["actions"] or ()]


class Tau2Retail(Tau2):
    name, domain, version = "tau2_retail", "retail", "0.1.0-2"


class Tau2Airline(Tau2):
    name, domain, version = "tau2_airline", "airline", "0.2.0-2"


REQUIREMENTS = Path(__file__).parents[1] / "requirements/tau2_retail.txt"  # of both domains
RETAIL = Hosted("tau2_retail", f"{__name__}:Tau2Retail", REQUIREMENTS, each=256)
AIRLINE = Hosted("tau2_airline", f"{__name__}:Tau2Airline", REQUIREMENTS, each=256)
