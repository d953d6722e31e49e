"""A `python` that starts at once, for the clones in which tests run the pipeline.

A dozen stages import torch, transformers and MLflow anew, which takes longer than what they then do in a small clone. Here
one server imports them, and forks a process for each command; the command itself, its files, its environment and its exit
code are as ever. The server knows third parties' packages only: what the clone imports of ours is the clone's.

`python -m tests.warm SOCKET` is the server; ``client`` is what stands for `python` and `coevolve` on a clone's PATH.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXPENSIVE = (
    "torch",
    "transformers.models.auto.modeling_auto",
    "transformers.models.llama.modeling_llama",
    "trl.trainer.grpo_trainer",
    "mlflow",
    "mlflow.store.tracking.sqlalchemy_store",
    "great_expectations",
    "dvc.cli",
    "dvc.repo",
    "dvc.commands.repro",
    "duckdb",
    "pyarrow.parquet",
)

CLIENT = """#!{python} -IS
import json, os, signal, socket, struct, sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = json.dumps({{"argv": {first!r} + sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}).encode()
socket.send_fds(server, [struct.pack("I", len(request))], [0, 1, 2])
server.sendall(request)
for one in (signal.SIGINT, signal.SIGTERM):
    signal.signal(one, lambda number, frame: server.sendall(bytes([number])))
code = struct.unpack("i", server.recv(4) or struct.pack("i", 1))[0]
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def client(folder: Path, path: Path) -> None:
    """`python` and `coevolve` in ``folder``, which leave their work to the server at ``path``."""
    folder.mkdir()
    for name, first in (("python", []), ("coevolve", ["-c", "from coevolve.cli import main; main()"])):
        file = folder / name
        file.write_text(CLIENT.format(python=sys.executable, path=str(path), first=first))
        file.chmod(0o755)


def serve(path: str) -> dict[str, Any]:
    """Fork for each request until standard input ends. Returns the request in the forked process."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(64)
    children: dict[int, tuple[int, socket.socket]] = {}  # by file descriptor of the process
    poll = select.poll()
    poll.register(server, select.POLLIN)
    poll.register(0, select.POLLHUP)
    clients: dict[int, int] = {}  # file descriptor of a connection → process
    while True:
        for ready, _ in poll.poll():
            if ready == 0:
                os._exit(0)
            if ready == server.fileno():
                connection, _ = server.accept()
                request, streams = receive(connection)
                if not (process := os.fork()):
                    server.close()
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                        os.close(stream)
                    return request
                for stream in streams:
                    os.close(stream)
                number = os.pidfd_open(process)
                children[number], clients[connection.fileno()] = (process, connection), process
                poll.register(number, select.POLLIN)
                poll.register(connection, select.POLLIN)
            elif ready in clients:  # a signal for the process; without its client it has nobody to work for
                text = os.read(ready, 1)
                os.kill(clients[ready], text[0] if text else signal.SIGKILL)
                if not text:
                    poll.unregister(ready)
                    del clients[ready]
            elif ready in children:
                process, connection = children.pop(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                if clients.pop(connection.fileno(), None):
                    poll.unregister(connection)
                    connection.sendall(struct.pack("i", code))
                connection.close()
                poll.unregister(ready)
                os.close(ready)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request and the client's three standard streams."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    (left,) = struct.unpack("I", head)
    text = b""
    while left > len(text):
        text += connection.recv(left - len(text))
    request: dict[str, Any] = json.loads(text)
    return request, streams


def become(request: dict[str, Any], paths: list[str]) -> None:
    """Run what `python` with these arguments would run."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    random.seed()
    for name in [name for name in sys.modules if name.split(".")[0] in ("coevolve", "tests")]:
        del sys.modules[name]
    here = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*(os.path.abspath(one) for one in here if one), *paths]
    kind, *rest = request["argv"]
    if kind == "-m":
        module, *sys.argv[1:] = rest
        sys.path.insert(0, os.getcwd())
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif kind == "-c":
        code, sys.argv = rest[0], ["-c", *rest[1:]]
        sys.path.insert(0, "")
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = request["argv"]
        sys.path.insert(0, str(Path(kind).resolve().parent))
        runpy.run_path(kind, run_name="__main__")


def end(work: Callable[[], None]) -> None:
    """Do ``work`` and exit as an interpreter does, but skip its teardown, which takes seconds with these modules."""
    code: Any = 0
    try:
        work()
    except SystemExit as left:
        code = left.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    from coevolve.core import arithmetic

    arithmetic.pin()
    for name in EXPENSIVE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is there stays shared: a forked process need not look at it again
    own = [os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    request = serve(sys.argv[1])
    end(lambda: become(request, [one for one in sys.path if one and one not in own]))
