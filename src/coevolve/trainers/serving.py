"""The parts that servers of environments share: their tasks, their command line, and who may ask them.

The environment itself runs in workers with coevolve's Python, so the server may have different packages.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse

from coevolve.core.task import Task
from coevolve.environments.worker import WorkerEnvironment
from coevolve.trainers.replay import checked_tasks

EVERYWHERE = ("0.0.0.0", "::")  # with such a --host, the server cannot know its own names


@dataclass(frozen=True)
class Offer:
    """An environment with the ``checked`` tasks of a ``file``, if one is served, for so many ``sessions`` at the same time."""

    world: WorkerEnvironment
    file: str
    checked: Sequence[Task]
    sessions: int


def serve(protocol: str, split: str, application: Callable[[Offer], Any]) -> None:
    """Serve the environment of the command line until Ctrl-C. ``split`` is the protocol's name for the tasks of a file."""
    import uvicorn

    name, place, python, host, port, sessions, *file = sys.argv[1:]
    world = WorkerEnvironment(name, place, python, 2, (int(sessions) + 1) // 2)
    checked, offered = list[Task](), ""
    if file:
        checked = checked_tasks(world, name, Path(file[0]))
        offered = f" (split {split}: {len(checked)} tasks of {file[0]})"
    app = application(Offer(world, Path(file[0]).name if file else "", checked, int(sessions)))
    print(f"serving {name}{offered} to {protocol} clients on http://{host}:{port} until Ctrl-C", flush=True)
    try:
        uvicorn.run(own_pages(app, host), host=host, port=int(port), log_level="warning")
    except KeyboardInterrupt:  # Ctrl-C and SIGTERM are the way to end a server
        pass
    finally:
        world.close()


def own_pages(app: Any, bound: str) -> Any:
    """``app`` for programs and its own pages only. A browser may show pages of other sites, whose names may lead here too."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        host, origin = headers.get("host", ""), headers.get("origin")
        named = re.sub(r":\d+$", "", host) in {bound, f"[{bound}]", "127.0.0.1", "localhost", "[::1]"}
        foreign = origin is not None and origin.partition("://")[2] != host
        if scope["type"] != "lifespan" and (foreign or not (named or bound in EVERYWHERE)):
            await JSONResponse({"detail": "the request comes from a page of another site"}, 403)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer
