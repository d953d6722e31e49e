"""An OpenAI-compatible server that plays references of miniworld, and leaves out a call in every other episode."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

from coevolve.core.io import read_tasks

TASKS = {task.turns[0]: task for task in read_tasks(Path(__file__).parent / "tasks.jsonl")}
EPISODES = count()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = asked["messages"]
        task = TASKS[next(message["content"] for message in said if message["role"] == "user")]
        done = sum(message["role"] == "assistant" for message in said)
        short = done == 0 and next(EPISODES) % 2
        calls = task.reference[0][1:] if short else task.reference[0][done:]
        message = {"role": "assistant", "content": "" if calls else "done"}
        if calls:
            function = {"name": calls[0].name, "arguments": json.dumps(calls[0].arguments)}
            message["tool_calls"] = [{"id": f"c{done}", "type": "function", "function": function}]
        kind = "chat.completion.chunk" if asked.get("stream") else "chat.completion"
        ending = {"index": 0, "finish_reason": "tool_calls" if calls else "stop"}
        for number, call in enumerate(message.get("tool_calls", [])):
            call["index"] = number
        reply = {"id": "r", "object": kind, "created": 0, "model": asked["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if asked.get("stream"):
            chunk = {**reply, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}
            last = {**reply, "choices": [{**ending, "delta": {}}], "usage": usage}
            body = f"data: {json.dumps(chunk)}\n\ndata: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode()
        else:
            body = json.dumps({**reply, "choices": [{**ending, "message": message}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if asked.get("stream") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
