"""``coevolve env``: list, install, create, show, check and serve environments."""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from coevolve.audit.checks import CHECKS
from coevolve.audit.subject import SEVERITIES, Finding, Subject, chosen, finding, place, write
from coevolve.commands import env_template
from coevolve.commands.options import DIR, FILE, actions
from coevolve.core.errors import CoevolveError
from coevolve.core.numeric_options import count, port, positive
from coevolve.core.terminal import Printed, apart, plain
from coevolve.environments.environment import quarantined
from coevolve.environments.hosted import Hosted, cache
from coevolve.environments.registry import make, maker, names
from coevolve.environments.tool_schema import tool_schema
from coevolve.environments.worker_process import SOURCE
from coevolve.words.learned_phrases import learned_phrases

CHECK = """
Checks whether an environment keeps the contract and is fit for training. Among other questions:

  - Does each reference get the maximum score, and an agent that does nothing a low score?
  - Do players without skill solve nothing?
  - Does the environment answer the same way twice, and in another process?
  - Do splits share tasks? Do error messages reveal the answer?

It prints a line per check, and below a problem examples and the remedy. The exit code is 1 if there is a problem of the severity
of --fail-on or a higher one. A check that does not end is the last one printed.

  coevolve env check miniworld
  coevolve env check sql --tasks 100 --fail-on warn
  coevolve env check mine.py:Mine --tasks 5 --only contract runtime
"""


SERVE = """
With --tasks, the server offers the tasks of FILE as the split `tasks`, beside the environment's own splits. It replays each
reference first, and serves nothing if the environment does not accept a task. /metadata says how many tasks the split has.

The reward comes with the last answer. A client that adds up the rewards of all steps, such as verifiers, sends
`rewards: change` with `reset`: then the sum is the score at any time, also if a limit of turns ends the episode.

`--protocol ors` serves the same tasks to ORS clients, such as TRL's OpenRewardSpec, as the split `train`. Each answer has the
score so far as its reward.

  coevolve env serve miniworld
  coevolve env serve miniworld --tasks grown/tasks.jsonl
  coevolve env serve miniworld --tasks grown/tasks.jsonl --protocol ors
"""

SERVERS = {"openenv": "coevolve.trainers.openenv_server", "ors": "coevolve.trainers.ors_server"}


ACTIONS = {
    "list": "list the environments, and say which are installed",
    "install": "install the pinned packages that an environment needs",
    "new": "write an environment package that works, for you to change",
    "phrases": "print a phrasebook, learned from the training tasks, for you to edit",
    "show": "print the splits, fingerprint and tools of an environment",
    "check": "check whether an environment keeps the contract and is fit for training",
    "serve": "serve an environment to OpenEnv or ORS clients until Ctrl-C",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parsers = actions(parser, ACTIONS, {"check": CHECK, "serve": SERVE})
    for action, act in zip(ACTIONS, (_list, _install, _new, _phrases, _show, _check, _serve), strict=True):
        parsers[action].set_defaults(act=act)
    for action in ("install", "phrases", "show", "check", "serve"):
        parsers[action].add_argument(
            "name", help="an environment: a name that `coevolve env list` prints, or FILE.py:CLASS"
        )
    add = parsers["new"].add_argument
    add("name", help="name of the new environment")
    add("--out", **DIR, help="a new or empty folder (default: NAME)")
    add = parsers["check"].add_argument
    add("--tasks", type=count, default=25, metavar="N", help="tasks to check in each split")
    add("--only", nargs="+", default=[], metavar="CHECK", help="run only the checks whose names begin so")
    add("--max-seconds", type=positive, default=900.0, help="limit for a call that never ends")
    add(
        "--fail-on",
        choices=("fail", "warn", "advisory"),
        default="fail",
        help="exit with 1 if a finding has this severity or a higher one",
    )
    add = parsers["serve"].add_argument
    add("--tasks", **FILE, help="serve the tasks of this file, such as accepted.jsonl, as the split `tasks`")
    add("--protocol", choices=sorted(SERVERS), default="openenv", help="the protocol of the clients")
    add("--host", default="127.0.0.1", help="the interface to listen on")
    add("--port", type=port, default=8000, help="the port to listen on")
    add("--sessions", type=count, default=64, metavar="N", help="sessions at the same time")


def _line(text: object) -> str:
    """Text of an environment as one line that cannot control a terminal."""
    return plain(" ".join(str(text).split()))


def run(args: argparse.Namespace) -> int:
    code: int = args.act(args)
    return code


def _list(args: argparse.Namespace) -> int:
    for name in names():
        try:
            shown = make(name).fingerprint
        except CoevolveError as error:
            shown = str(error)
        except Exception as error:  # one broken package must not hide the other environments
            shown = f"does not open: {error!r}"
        print(f"{name:12s} {_line(shown)}")
    return 0


def _install(args: argparse.Namespace) -> int:
    made = maker(args.name)
    if isinstance(made, Hosted):
        made.install()
        print(f"{args.name} is installed; `coevolve env check {args.name}` tests it")
    else:
        print(f"{args.name} needs no installation: {_line(make(args.name).fingerprint)}")
    return 0


def _new(args: argparse.Namespace) -> int:
    folder = args.out or Path(args.name)
    for file in env_template.write(args.name, folder):
        print(file)
    print(f"next: `cd {folder}`, then `coevolve env check {args.name}`; the module's comments say what to change")
    return 0


def _phrases(args: argparse.Namespace) -> int:
    environment = make(args.name)
    learned = learned_phrases(environment)
    book = learned.book
    print("# Put this into the class of the environment, and import Phrasebook from coevolve.environments.environment.")
    print("phrasebook = Phrasebook(")
    for part in ("actions", "lookups", "fields", "questions", "sentences"):
        phrases = {
            name: said for name, said in getattr(book, part).items() if part != "sentences" or name not in book.actions
        }
        if phrases:
            print(f"    {part}=" + json.dumps(phrases, ensure_ascii=False, indent=4).replace("\n", "\n    ") + ",")
    print(")")
    print(f"# {_line(learned.note(args.name).rpartition(';')[0])}")
    return 0


def _show(args: argparse.Namespace) -> int:
    environment = make(args.name)
    print(_line(f"{environment.name}, {environment.fingerprint}"))
    for split in ("seed", *environment.panels):
        tasks = environment.tasks(split)
        known_bad = len(quarantined(environment, tasks))
        ceiling = (
            f", {known_bad} in quarantine: at most {1 - known_bad / len(tasks):.3f} can succeed" if known_bad else ""
        )
        shown = tasks[:1] if split == "seed" else ()  # panels are for evaluation
        example = "".join(f", such as: {_line(' / '.join(task.turns))[:120]}" for task in shown)
        print(f"  {_line(split):12s} {len(tasks)} tasks{ceiling}{example}")
    for schema in environment.tools():
        function = schema["function"]
        call = _line(f"{function['name']}({_arguments(function)})")
        print(f"  {call}  {json.dumps(function['description'])[1:-1][:90]}")
    return 0


def _arguments(function: Mapping[str, Any]) -> str:
    """The arguments of a tool with their types; those that may be left out are in brackets."""
    schema = tool_schema(function)
    flat = schema.flat()
    kinds = {name: schema.flat(part).get("type") for name, part in flat["properties"].items()}
    texts = {name: f"{name}: {kind}" if kind else name for name, kind in kinds.items()}
    return ", ".join(text if name in flat["required"] else f"[{text}]" for name, text in texts.items())


def _check(args: argparse.Namespace) -> int:
    printed, found = Printed(), list[Finding]()
    with redirect_stdout(printed), redirect_stderr(printed), apart(printed, 1, 2):
        environment = make(args.name)
        subject = Subject(environment, args.tasks, args.name, args.max_seconds)
    print(_line(f"{environment.name}, {environment.fingerprint}"))
    for key in dict.fromkeys([next(iter(CHECKS)), *chosen(args.only, CHECKS)]):
        print(f"  {key:34s} ", end="", flush=True)
        with redirect_stdout(printed), redirect_stderr(printed), apart(printed, 1, 2):
            one = finding(subject, key)
        found.append(one)
        if one.number and not one.remedy:
            print(f"{one.severity.upper()}: {one.evidence[0]}", flush=True)
            continue
        print(one.severity.upper() if one.number else "ok", flush=True)
        more = [f"… {one.number - 3} more"] if one.number > 3 else []
        for line in [*map(_line, one.evidence[:3]), *more, *([one.remedy] if one.number else [])]:
            print(f"      {line}", flush=True)
        if subject.stopped:
            print("the other checks were not run: repair this first")
            break
    print("".join(f"{note}\n" for note in printed.notes()), end="")
    if not args.only:
        write(environment, found, place(environment))
    bad = SEVERITIES[: SEVERITIES.index(args.fail_on) + 1]
    return 1 if any(one.number and one.severity in bad for one in found) else 0


def _serve(args: argparse.Namespace) -> int:
    name = make(args.name).name
    served = maker("openenv")  # its virtual environment has the servers' packages
    if not served.installed():
        raise CoevolveError("serving needs packages of OpenEnv and ORS; run `coevolve env install openenv`")
    interpreter = str(served.python)
    command = [interpreter, "-m", SERVERS[args.protocol], name, args.name, sys.executable]
    environment = {
        "OPENREWARD_LOG_LEVEL": "ERROR",
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "COEVOLVE_CACHE": str(cache()),
    }
    # replaces this process, so that a signal to it ends the server
    command += [args.host, str(args.port), str(args.sessions), *([str(args.tasks)] if args.tasks else [])]
    os.execve(interpreter, command, environment)
