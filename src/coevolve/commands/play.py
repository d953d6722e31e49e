"""``coevolve play``: solve a task of an environment by hand."""

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from rich.console import Console

from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import Observation, Score, Task, ToolCall, readable
from coevolve.core.terminal import plain
from coevolve.environments.border import crossed
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.environments.tool_schema import tool_schema

HELP = """
Shows a task and takes your calls, one per line, as the environment takes an agent's:

  find_contact(name="Ada")   make a call; arguments are literals, and those without a name follow the schema's order
  any other text             send it as an agent's message without a call, which ends the turn
  /tools [WORD]              list the tools and their arguments, or only the tools that contain WORD
  /reference                 show the calls that solve the task
  /score                     show the score and its checks so far
  /help                      show these lines
  /quit or Ctrl-D            end the episode

  coevolve play miniworld
  coevolve play miniworld 3 --split validation
"""
RED = "red"
STYLES = {"user": "bold cyan", "tool": "green"}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="an environment of `coevolve env list`, or FILE.py:CLASS")
    add(
        "task",
        nargs="?",
        default="0",
        metavar="TASK",
        help="number of a task in the split, or the beginning of its id; the whole id if that is a number",
    )
    add("--split", default="seed", help="a split that `coevolve env show` lists")


def run(args: argparse.Namespace) -> int:
    console, environment = Console(highlight=False), make(args.name)

    def say(text: str, style: str = "") -> None:
        console.print(plain(text), style=style, markup=False)

    def show(turn: Observation) -> None:
        if turn.content:
            say(f"{turn.role}: {turn.content}", RED if turn.error else STYLES.get(turn.role, ""))

    task = _chosen(environment, args.task, args.split)
    with closing(environment.open()) as session:
        turn, score = session.reset(task), None
        tools = turn.tools or []
        say(
            f"{environment.name}, task {task.task_id}; {len(tools)} tools (/tools lists them, /help the commands)",
            "dim",
        )
        show(turn)
        for line in _typed():
            if line == "/quit":
                break
            if line.startswith("/"):
                for text in _answer(line, environment, task, tools, session):
                    say(text)
                continue
            try:
                call = parse_call(line, tools)
            except CoevolveError as error:
                say(str(error), RED)
                continue
            try:
                turn = session.step(crossed(call, tools)) if call else session.say(line)
            except Exception as error:  # every error of the environment would end an agent's episode, so it ends ours
                say(f"the call broke the session: {type(error).__name__}: {error}", RED)
                score = Score(0.0)
                break
            tools = turn.tools if turn.tools is not None else tools
            show(turn)
            if turn.done:
                break
        for text in _lines(score or session.score()):
            say(text)
    return 0


def _chosen(environment: Environment, wanted: str, split: str) -> Task:
    tasks = environment.tasks(split)
    if wanted.isdecimal() and int(wanted) < len(tasks):
        return tasks[int(wanted)]
    start = "no task" if wanted.isdecimal() else wanted  # the beginning of an id
    found = [one for one in tasks if wanted in (one.task_id, one.world.get("id")) or one.task_id.startswith(start)]
    if len(found) == 1:
        return found[0]
    raise CoevolveError(
        f"{environment.name} has no task {wanted!r} in {split}; expected a task_id or a number below {len(tasks)}"
    )


def _typed() -> Iterator[str]:
    """The lines that a person types, without blank lines. The prompt appears only on a terminal."""
    if sys.stdin.isatty():
        import readline  # noqa: F401  (gives input() a history)
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line:
            yield line


def parse_call(line: str, tools: Sequence[Mapping[str, Any]]) -> ToolCall | None:
    """``line`` as a call with literal arguments, or None if it is not a call. A malformed call is an error."""
    name, bracket, rest = line.partition("(")
    if not bracket or not rest.endswith(")") or " " in name.strip():
        return None
    try:
        node = ast.parse(f"_({rest}", mode="eval").body
        assert isinstance(node, ast.Call)
        values = [ast.literal_eval(value) for value in node.args]
        named = {str(value.arg): ast.literal_eval(value.value) for value in node.keywords}
        json.dumps([values, named])
    except (AssertionError, SyntaxError, ValueError, TypeError):
        raise CoevolveError(f'{line[:80]}: expected literals, as in {name}(key="value", number=3)') from None
    known = next((keys for tool, keys, _ in _signatures(tools) if tool == name.strip()), ())
    return ToolCall(name.strip(), {**dict(zip(known, values, strict=False)), **named})


def _signatures(tools: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Sequence[str], str]]:
    """Name, arguments in the schema's order, and description of each tool."""
    for function in (tool["function"] for tool in tools):
        yield function["name"], list(tool_schema(function).flat()["properties"]), function["description"]


def _answer(line: str, environment: Environment, task: Task, tools: Sequence[Any], session: Any) -> Iterator[str]:
    """The lines that answer a command of HELP."""
    command, _, word = line.partition(" ")
    if command == "/tools":
        for name, keys, about in _signatures(tools):
            if word in f"{name}({', '.join(keys)})" or word in about:
                yield f"  {name}({', '.join(keys)})  {about[:100]!r}"
    elif command == "/reference":
        for turn in environment.reference(task):
            yield from (f"  {readable(call.name, call.arguments)}" for call in turn)
            yield "  then a message"
    else:
        yield from _lines(session.score()) if command == "/score" else [HELP.split("\n\n")[1]]


def _lines(score: Score) -> Iterator[str]:
    yield from (f"  {'✓' if passed else '✗'} {name}" for name, passed in score.checks.items())
    yield f"score {score.reward:.2f}: {'success' if is_success(score.reward) else 'no success'}"
