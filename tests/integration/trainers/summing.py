"""A client of `coevolve env serve` that plays as verifiers' player does: it asks for tools before the first reset, sends JSON
or a plain sentence, adds up the rewards of all steps, and stops after some turns. Runs in the Python that has OpenEnv.
"""

import json
import sys
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.waiting import PATIENCE


def ask(socket: ClientConnection, kind: str, **data: Any) -> dict[str, Any]:
    socket.send(json.dumps({"type": kind, "data": data} if data else {"type": kind}))
    answer: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE))
    assert answer["type"] != "error", answer
    return dict(answer["data"])


def play(url: str, reset: dict[str, Any], actions: list[Any]) -> dict[str, Any]:
    with connect(url.replace("http", "ws", 1) + "/ws", open_timeout=PATIENCE) as socket:
        tools = ask(socket, "step", type="list_tools")["observation"]["tools"]
        answer = ask(socket, "reset", **reset)
        total = 0.0
        for action in actions:
            answer = ask(socket, "step", **(action if isinstance(action, dict) else {"tool_name": action}))
            total += answer["reward"] or 0.0
        names = [tool["name"] for tool in tools]
        return {"tools": names, "last": answer, "sum": total, "state": ask(socket, "state")}


if __name__ == "__main__":
    print(json.dumps([play(sys.argv[1], one["reset"], one["actions"]) for one in json.load(sys.stdin)]))
