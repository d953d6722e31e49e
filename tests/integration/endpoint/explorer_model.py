"""What a model says that explores miniworld and writes tasks for it: it plans an event, fills the wallet, and asks for the event.

Its replies depend on the conversation alone.
"""

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from coevolve.core.task import ToolCall
from tests.integration.trainers.scripted_model import calling

TITLES = ("yoga", "exam", "dinner", "concert", "workshop", "meeting", "hike", "picnic")
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
REFLECTION = {
    "what_failed": "the agent left a call out",
    "where": "at the end",
    "why": "it never plans events",
    "try": ["plan an event with add_event", "fill the wallet with top_up"],
}
ASKED = "please plan a {title} for {day}"
PLANNED = re.compile(r"add_event\((\{.*?\})\)")


def explorer(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The next message."""
    text = str(messages[0]["content"])
    said = sum(message["role"] == "assistant" for message in messages)
    if text.startswith("An agent that acts"):
        return saying(json.dumps(REFLECTION))
    if text.startswith("These calls were made"):
        event = json.loads(PLANNED.findall(text)[0])
        turn = {"instruction": ASKED.format(**event), "calls": [1]}
        return saying(json.dumps({"tasks": [{"turns": [turn], "asks": [1]}]}))
    if text.startswith("Explore this environment") and said < 2:
        rng = random.Random(text)
        plan = ToolCall("add_event", {"title": rng.choice(TITLES), "day": rng.choice(DAYS)})
        return calling([(plan, ToolCall("top_up", {"amount": 10}))[said]], str(said))
    return saying("done")


def saying(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}
