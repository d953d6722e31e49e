"""An OpenAI-compatible server in this process, whose model is a function of the conversation."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from coevolve.core.task import ToolCall
from tests.servers import running

# first request → the calls of each reply; without a call it is "done"
Script = Mapping[str, Sequence[Sequence[ToolCall]]]


def reply(messages: Sequence[Mapping[str, Any]], script: Script) -> dict[str, Any]:
    """The next message."""
    request = next(message["content"] for message in messages if message["role"] == "user")
    said = sum(message["role"] == "assistant" for message in messages)
    calls = script[request][said] if said < len(script[request]) else []
    return calling(calls, str(said)) if calls else {"role": "assistant", "content": "all of it is done"}


def calling(calls: Sequence[ToolCall], key: str) -> dict[str, Any]:
    """A message that makes ``calls``; ``key`` tells its calls from those of other messages."""
    functions = [{"name": call.name, "arguments": json.dumps(call.arguments)} for call in calls]
    made = [{"id": f"{key}-{n}", "type": "function", "index": n, "function": one} for n, one in enumerate(functions)]
    return {"role": "assistant", "content": None, "tool_calls": made}


def scripted(script: Script) -> AbstractContextManager[str]:
    """The URL of a server that says the replies of ``script``, while the block runs."""
    return answering(lambda messages: reply(messages, script))


@contextmanager
def answering(model: Callable[[Sequence[Mapping[str, Any]]], dict[str, Any]]) -> Iterator[str]:
    """The URL of a server whose next message is ``model(messages)``, while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = model(body["messages"])
            ended = "tool_calls" if message.get("tool_calls") else "stop"
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            head = {"id": "x", "created": 0, "model": body["model"]}
            if body.get("stream"):
                choice = {"index": 0, "delta": message, "finish_reason": ended}
                chunks = [[choice], []]
                events = [
                    {**head, "object": "chat.completion.chunk", "choices": one, "usage": None if one else usage}
                    for one in chunks
                ]
                text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
                kind = "text/event-stream"
            else:
                choice = {"index": 0, "message": message, "finish_reason": ended}
                text = json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
                kind = "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running(server) as url:
        yield url
