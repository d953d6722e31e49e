"""An OpenEnv server that lies: the seed of an episode chooses the lie. Runs in the Python that has OpenEnv.

`python liar.py PORT`. All other answers follow the protocol.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

HONEST, SILENT = 99, 100  # seeds
EMPTY = {"type": "object", "properties": {}}
LOOK = {"name": "look", "description": "Look around", "input_schema": EMPTY}


def observation(reward: Any = 1.0, done: Any = True, **said: Any) -> str:
    return json.dumps({"type": "observation", "data": {"observation": said, "reward": reward, "done": done}})


def state(**data: Any) -> str:
    return json.dumps({"type": "state", "data": data})


def tools(*listed: Any) -> str:
    return observation(None, False, tools=list(listed))


NUMBER = '{"type": "observation", "data": {"observation": {"result": "x"}, "done": true, "reward": %s}}'
DEEP = '{"a":' * 2000 + "1" + "}" * 2000
# the request with the lie, the messages sent instead, and the outcome: the score, or words of the failure
LIES: list[tuple[str, Callable[[], list[Any]], float | str]] = [
    ("step", lambda: [observation(result="seen")], 1.0),
    ("step", lambda: [NUMBER % "NaN"], "reward is 'nan'"),
    ("step", lambda: [NUMBER % '"1.0"'], "reward is '1.0'"),
    ("step", lambda: [NUMBER % "7"], 1.0),
    ("step", lambda: [observation(done="no", result="x")], "no observation"),
    ("step", lambda: [json.dumps({"type": "observation", "data": 3})], "broke off at step"),
    ("step", lambda: [b"\xff\xfe\x00"], "broke off at step"),
    ("step", lambda: [DEEP], "broke off at step"),
    ("step", lambda: [None], "broke off at step"),
    ("step", lambda: ["x" * (2**24 + 1)], "broke off at step"),
    ("step", lambda: [observation(result="y" * 10**6)], 1.0),
    ("step", lambda: [json.dumps({"type": "error", "data": {"message": "no such\nthing"}})], 0.5),
    ("state", lambda: [state(reward="x")], "reward is 'x'"),
    ("state", lambda: [json.dumps({"type": "error", "data": {}})], 0.0),
    ("reset", lambda: [json.dumps({"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "full"}})], "full"),
    ("tools", lambda: [tools({"name": "look"})], "tools cannot be read"),
    ("tools", lambda: [tools({**LOOK, "description": "z" * 3 * 10**6})], "tools are longer than"),
]


def answer(kind: str, lie: int) -> list[Any]:
    if lie < len(LIES) and LIES[lie][0] == kind:
        return LIES[lie][1]()
    if lie < len(LIES) and LIES[lie][0] == "state" and kind == "step":
        return [observation(None, True, result="seen")]  # so that the state is asked
    right = {"reset": observation(None, False, content="hello"), "tools": tools(LOOK), "state": state(reward=0.5)}
    return [right.get(kind) or observation(result="seen")]


def talk(socket: Any) -> None:
    lie = HONEST
    for text in socket:
        asked = json.loads(text)
        data = asked.get("data") or {}
        if asked["type"] == "reset":
            lie = data["seed"] if data["seed"] > 0 else HONEST
        kind = "tools" if data.get("type") == "list_tools" else asked["type"]
        if lie == SILENT:
            time.sleep(10**6)
        for told in answer(kind, lie):
            if told is None:
                socket.close()
            else:
                socket.send(told)


def main() -> None:
    from websockets.sync.server import serve

    with serve(talk, "127.0.0.1", int(sys.argv[1]), max_size=None, compression=None) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
