"""An OpenEnv server whose one tool lets an agent choose what the server does; runs in the Python that has OpenEnv.

`python obedient.py PORT SESSIONS`. A call of `do` with x: right, wrong, slow, or one of the ways to break the session. `stop` ends every session
of the server, and no new one starts.
"""

import json
import sys
import threading
import time
from typing import Any

X = {"type": "object", "properties": {"x": {"type": "string"}}}
DO = {"name": "do", "description": "Do it", "input_schema": X}
NUMBER = '{"type": "observation", "data": {"observation": {"result": "done"}, "done": true, "reward": %s}}'
BREAKS = ("close", "nan", "flood", "garbage", "hang")
stopped = threading.Event()
room = threading.Semaphore(int(sys.argv[2])) if __name__ == "__main__" else threading.Semaphore()


def observation(reward: Any, done: bool, **said: Any) -> str:
    return json.dumps({"type": "observation", "data": {"observation": said, "reward": reward, "done": done}})


def answer(data: dict[str, Any]) -> str | None:
    """The reply; None closes the session."""
    if data.get("type") == "list_tools":
        return observation(None, False, tools=[DO])
    kind = data.get("arguments", {}).get("x")
    if kind == "hang":
        time.sleep(10**6)
    if kind == "slow":
        time.sleep(1)
    if kind == "stop":
        stopped.set()
    replies = {
        "slow": NUMBER % "1.0",
        "right": NUMBER % "1.0",
        "wrong": NUMBER % "0.0",
        "nan": NUMBER % "NaN",
        "flood": "x" * 30_000_000,
        "garbage": "no JSON",
    }
    return replies.get(kind)


def talk(socket: Any) -> None:
    if not room.acquire(blocking=False):
        refusal = {"code": "CAPACITY_REACHED", "message": "all sessions are in use"}
        socket.send(json.dumps({"type": "error", "data": refusal}))
        return
    try:
        serve_session(socket)
    finally:
        room.release()


def serve_session(socket: Any) -> None:
    for text in socket:
        asked = json.loads(text)
        if asked["type"] == "reset":
            reply: str | None = observation(None, False, content="hello")
        elif asked["type"] == "state":
            reply = json.dumps({"type": "state", "data": {}})
        else:
            reply = answer(asked["data"])
        if reply is None or stopped.is_set():
            return
        socket.send(reply)


def main() -> None:
    from websockets.sync.server import serve

    with serve(talk, "127.0.0.1", int(sys.argv[1]), max_size=None, compression=None) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
