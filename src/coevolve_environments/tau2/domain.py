"""Domains of τ²-bench (arXiv 2506.07982): its data and tasks, with tools that were written again. Runs in a worker.

This is *not* τ²'s protocol. There an LLM plays the user from a script, and replies are judged too. Here the script is the
instruction, and a task succeeds as in `coevolve.environments.methods`: the database must end as the reference leaves it. If the
reference changes nothing, the agent must look up the same records. The tool ``policy`` returns the domain's policy.
"""

import ast
import copy
import json
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment, Question

REQUIREMENTS = Path(__file__).parents[1] / "requirements/tau2_retail.txt"  # of both domains
EACH = 4  # one of so many goals of the training split goes to validation
# the reference of this task is refused: its gift card does not cover the difference
UNSOLVABLE = {("retail", "105")}
LONGEST = 200  # most characters of a calculation
OPERATORS: Mapping[type, Callable[..., float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}  # fmt: skip
Record = dict[str, Any]


class Domain:
    """The current state of a database. ``changed`` holds the records that differ from ``tables``, by table and key.

    A method refuses a call by raising ValueError.
    """

    name: str

    def __init__(self) -> None:
        self.changed: dict[str, dict[str, Record]] = {}

    def policy(self) -> str:
        """The rules that an agent of this domain has to keep"""
        return read(self.name, "policy.md")

    def calculate(self, expression: str) -> str:
        """Work out an arithmetic expression of numbers, + - * / and parentheses"""
        try:
            if len(expression) > LONGEST:
                raise ValueError
            return f"{round(_value(ast.parse(expression, mode='eval').body), 2)}"
        except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
            raise ValueError("expected an expression of numbers, + - * / and parentheses") from None

    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand the user over to a human, with a summary of what is wanted; only where the policy says so"""
        return "Transfer successful"

    def _keys(self, table: str) -> list[str]:
        return [
            *tables(self.name)[table],
            *(key for key in self.changed.get(table, ()) if key not in tables(self.name)[table]),
        ]

    def _read(self, table: str, key: str) -> Record:
        """A record that the caller must not change."""
        found = self.changed.get(table, {}).get(key) or tables(self.name)[table].get(key)
        if found is None:
            raise ValueError(f"{table}: there is no {key[:60]}")
        return found

    def _own(self, table: str, key: str) -> Record:
        """A record that the caller may change."""
        return self.changed.setdefault(table, {}).setdefault(key, copy.deepcopy(self._read(table, key)))

    def _settled(self, told: Record) -> str:
        """``told`` as an answer. Removes records from ``changed`` that equal their original."""
        before = tables(self.name)
        for table, some in list(self.changed.items()):
            self.changed[table] = {key: one for key, one in some.items() if one != before[table].get(key)}
            if not self.changed[table]:
                del self.changed[table]
        return json.dumps(told)


def paid(methods: Mapping[str, Record], name: str) -> Record:
    """The payment method called ``name``."""
    if name not in methods:
        raise ValueError(f"there is no payment method {name[:60]}")
    return methods[name]


def _value(node: ast.AST) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.operand))
    raise ValueError


@cache
def read(domain: str, file: str) -> str:
    """The text of a file of the domain's data, read without importing its package."""
    package = f"tau2_{domain}_mcp"
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise CoevolveError(f"tau2_{domain} is not installed; run `coevolve env install tau2_{domain}`")
    return (Path(spec.origin).parent / "data/tau2/domains" / domain / file).read_text(encoding="utf-8")


@cache
def tables(domain: str) -> dict[str, dict[str, Record]]:
    """The initial database. Callers must not change it."""
    found: dict[str, dict[str, Record]] = json.loads(read(domain, "db.json"))
    return found


@cache
def _tasks(domain: str) -> tuple[Record, ...]:
    every = json.loads(read(domain, "tasks.json"))
    return tuple(task for task in every if _calls(task) and (domain, task["id"]) not in UNSOLVABLE)


class Tau2(MethodEnvironment):
    """A domain's tasks. A subclass sets ``name``, ``simulator`` and ``version``."""

    license = "MIT"
    simulator: type[Domain]

    def questions(self, split: str) -> Iterator[Question]:
        return questions(self.simulator.name, split)


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
