"""``coevolve env``: which environments there are, what they offer, and how to get them."""

import argparse
import json
import subprocess
import sys

from coevolve.errors import CoevolveError

# Their dependencies would downgrade ours, and what we use of them needs none.
REQUIREMENTS = {"bfcl": "bfcl-eval==2026.3.23"}


def configure(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    commands.add_parser("list", help="names, and whether they are installed")
    install = commands.add_parser("install", help="install what an environment needs")
    install.add_argument("name", choices=sorted(REQUIREMENTS))
    show = commands.add_parser("show", help="splits, fingerprint and tools of an environment")
    show.add_argument("name")


def run(args: argparse.Namespace) -> int:
    return {"list": _list, "install": _install, "show": _show}[args.action](args)


def _list(args: argparse.Namespace) -> int:
    from coevolve.environments import make, names

    for name in names():
        try:
            print(f"{name:12s} {make(name).fingerprint}")
        except CoevolveError as error:
            print(f"{name:12s} {error}")
    return 0


def _install(args: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "pip", "install", "--no-deps", REQUIREMENTS[args.name]]
    print(" ".join(command))
    return subprocess.run(command, check=False).returncode


def _show(args: argparse.Namespace) -> int:
    from coevolve.environments import make

    environment = make(args.name)
    print(f"{environment.name}, {environment.fingerprint}")
    for split in ("seed", *environment.panels):
        print(f"  {split:12s} {len(environment.tasks(split))} tasks")
    for schema in environment.tools():
        function = schema["function"]
        arguments = ", ".join(function["parameters"].get("properties", {}))
        print(f"  {function['name']}({arguments})  {json.dumps(function['description'])[1:-1][:90]}")
    return 0
