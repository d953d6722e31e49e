"""``coevolve play``: solve a task of an environment by hand."""

import argparse
import ast
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coevolve.core.calls import readable
from coevolve.core.errors import CoevolveError
from coevolve.core.success import is_success
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.core.terminal import plain

if TYPE_CHECKING:
    from rich.console import Console

    from coevolve.environments.environment import Environment

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
STYLES = {"user": "bold cyan", "tool": "green", "error": "red"}
UNMISTAKABLE = 8  # characters of an id that name one task, even if all are digits


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="an environment; `coevolve env list` prints the names")
    task = "number of a task in the split, or the beginning of its id; 8 characters if all are digits"
    add("task", nargs="?", default="0", metavar="TASK", help=task)
    add("--split", default="seed", help="a split that `coevolve env show` lists")


def run(args: argparse.Namespace) -> int:
    from rich.console import Console

    from coevolve.environments.registry import make

    console = Console(highlight=False)
    environment = make(args.name)
    task = _chosen(environment, args.task, args.split)
    session = environment.open()
    try:
        score = _episode(console, environment, task, session)
    finally:
        session.close()
    _show_score(console, score)
    return 0


def _chosen(environment: "Environment", wanted: str, split: str) -> Task:
    tasks = environment.tasks(split)
    if wanted.isdecimal() and int(wanted) < len(tasks):
        return tasks[int(wanted)]
    begins_id = len(wanted) >= UNMISTAKABLE or not wanted.isdecimal()
    found = [
        task for task in tasks if task.world.get("id") == wanted or (begins_id and task.task_id.startswith(wanted))
    ]
    if len(found) == 1 or (found and len(wanted) >= UNMISTAKABLE):
        return found[0]
    raise CoevolveError(
        f"{environment.name} has no task {wanted!r} in {split}; expected a task_id or a number below {len(tasks)}"
    )


def _episode(console: "Console", environment: "Environment", task: Task, session: Any) -> Score:
    """Play until the environment or the player ends the episode."""
    turn = session.reset(task)
    tools = turn.tools or []
    console.print(
        f"{environment.name}, task {task.task_id}; {len(tools)} tools (/tools lists them, /help the commands)",
        style="dim",
    )
    _show(console, turn)
    for line in _typed():
        if line == "/quit":
            break
        if line.startswith("/"):
            _command(console, line, environment, task, tools, session)
            continue
        try:
            call = parse_call(line, tools)
        except CoevolveError as error:
            console.print(str(error), style=STYLES["error"], markup=False)
            continue
        try:
            turn = session.step(call) if call else session.say(line)
        except Exception as error:  # every error of the environment would end an agent's episode, so it ends ours
            console.print(
                plain(f"the call broke the session: {type(error).__name__}: {error}"),
                style=STYLES["error"],
                markup=False,
            )
            return Score(0.0)
        tools = turn.tools if turn.tools is not None else tools
        _show(console, turn)
        if turn.done:
            break
    score: Score = session.score()
    return score


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
    from coevolve.environments.tool_schema import tool_schema

    functions = [tool["function"] for tool in tools]
    known = {function["name"]: tool_schema(function).flat()["properties"] for function in functions}
    name, bracket, rest = line.partition("(")
    if not bracket or not rest.endswith(")") or " " in name.strip():
        return None
    try:
        node = ast.parse(f"_({rest}", mode="eval").body
        if not isinstance(node, ast.Call):
            raise ValueError("not a call")
        values = [ast.literal_eval(one) for one in node.args]
        named = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
        json.dumps([values, named])
    except (SyntaxError, ValueError, TypeError):
        raise CoevolveError(f'{line[:80]}: expected literals, as in {name}(key="value", number=3)') from None
    return ToolCall(name.strip(), {**dict(zip(known.get(name.strip(), {}), values, strict=False)), **named})


def _command(
    console: "Console", line: str, environment: "Environment", task: Task, tools: Sequence[Any], session: Any
) -> None:
    from rich.markup import escape

    from coevolve.environments.tool_schema import tool_schema

    command, _, word = line.partition(" ")
    if command == "/tools":
        for tool in tools:
            function = tool["function"]
            shown = f"{function['name']}({', '.join(tool_schema(function).flat()['properties'])})"
            if word in shown or word in function["description"]:
                about = escape(repr(function["description"][:100]))
                console.print(f"  {escape(plain(shown))}  [dim]{about}[/dim]")
    elif command == "/reference":
        for turn in environment.reference(task):
            for call in turn:
                console.print(plain(f"  {readable(call.name, call.arguments)}"), markup=False)
            console.print("  then a message", style="dim")
    elif command == "/score":
        _show_score(console, session.score())
    else:
        console.print(HELP.split("\n\n")[1], style="" if command == "/help" else STYLES["error"], markup=False)


def _show(console: "Console", turn: Observation) -> None:
    if turn.content:
        style = STYLES["error"] if turn.error else STYLES.get(turn.role, "")
        console.print(plain(f"{turn.role}: {turn.content}"), style=style, markup=False)


def _show_score(console: "Console", score: Score) -> None:
    for name, passed in score.checks.items():
        console.print(f"  {'✓' if passed else '✗'} {name}", style="green" if passed else "red")
    console.print(f"score {score.reward:.2f}: {'success' if is_success(score.reward) else 'no success'}", style="bold")
