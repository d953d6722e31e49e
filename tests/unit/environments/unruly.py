"""Environments of eight switches, each with a habit that would end an episode without the agent's fault, or mislead its reader."""

import asyncio
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session

NAMES = ("hall", "attic", "cellar", "kitchen", "study", "bath", "porch", "garage")
PRESS: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "press",
        "description": "Press a switch",
        "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}


class SwitchSession(Session):
    """The pressed switches lie in a database, which only the thread that opened it may use."""

    def reset(self, task: Task) -> Observation:
        self.task = task
        self._data = sqlite3.connect(":memory:")
        self._data.execute("create table pressed (name text)")
        return Observation("user", task.turns[0], tools=[PRESS])

    def step(self, call: ToolCall) -> Observation:
        name = call.arguments.get("name")
        if call.name != "press" or set(call.arguments) != {"name"} or name not in NAMES:
            return Observation("tool", "expected press(name) of a switch", error=True)
        self._data.execute("insert into pressed values (?)", (name,))
        return Observation("tool", "pressed")

    def say(self, text: str) -> Observation:
        return Observation("user", "", done=True)

    def _pressed(self) -> list[str]:
        return [name for (name,) in self._data.execute("select name from pressed")]

    def score(self) -> Score:
        right = self._pressed() == [call.arguments["name"] for call in self.task.calls]
        return Score(float(right), {"pressed": right})

    def digest(self) -> str:
        return " ".join(self._pressed())

    def close(self) -> None:
        if hasattr(self, "_data"):
            self._data.close()


class Switches(Environment):
    name, fingerprint, panels = "switches", "switches-1", ("validation",)
    session: ClassVar[Callable[[], Session]] = SwitchSession

    def load_tasks(self, split: str) -> Sequence[Task]:
        names = NAMES[:5] if split == "seed" else NAMES[5:]
        calls = [(name, [[ToolCall("press", {"name": name})]]) for name in names]
        return [Task.create(self.name, split, [f"press the {name}"], {}, reference) for name, reference in calls]

    def tools(self) -> Sequence[dict[str, Any]]:
        return [PRESS]

    def open(self) -> Session:
        return type(self).session()


def with_habit(method: str, habit: Callable[[Any, Any], object]) -> type[Switches]:
    """Switches whose session does ``habit`` before each call of ``method``."""

    def before(self: SwitchSession, *asked: Any) -> Any:
        habit(self, *asked or [None])
        return getattr(SwitchSession, method)(self, *asked)

    return type("Habitual", (Switches,), {"session": type("HabitSession", (SwitchSession,), {method: before})})


def _raise(error: BaseException) -> Callable[[Any, Any], object]:
    def habit(*_: Any) -> object:
        raise error

    return habit


def _alarm(*_: Any) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _shout(*_: Any) -> None:
    print("pressing")


def _sometimes(session: SwitchSession, call: ToolCall) -> None:
    if call.arguments.get("name") in ("cellar", "bath"):
        raise RuntimeError("the bulb is gone")


def _unknown(session: SwitchSession, call: ToolCall) -> None:
    if isinstance(name := call.arguments.get("name"), str) and name not in NAMES:
        raise KeyError(name)


Alarmed = with_habit("step", _alarm)
Looped = with_habit("step", lambda *_: asyncio.get_event_loop())
Running = with_habit("step", lambda *_: asyncio.run(asyncio.sleep(0)))
Shouting = with_habit("step", _shout)
Fragile = with_habit("step", _sometimes)
Broken = with_habit("step", _raise(RuntimeError("the bulb is gone")))
Leaving = with_habit("step", _raise(SystemExit(3)))
Shut = with_habit("reset", _raise(OSError("the house is locked")))
Unjudged = with_habit("score", _raise(RuntimeError("no judge")))
Unclosed = with_habit("close", _raise(RuntimeError("the door is stuck")))
Undigested = with_habit("digest", _raise(RuntimeError("no state")))
Stuck = with_habit("step", lambda *_: threading.Event().wait())
Undigesting = with_habit("digest", lambda *_: threading.Event().wait())
Keyed = with_habit("step", _unknown)


class Half(Switches):
    """Gives the reference half of the reward."""

    class session(SwitchSession):
        def score(self) -> Score:
            return Score(super().score().reward / 2, {"whole": False})


class Timed(Switches):
    """Its last tool writes the time of day, which only its last task uses."""

    class session(SwitchSession):
        def step(self, call: ToolCall) -> Observation:
            return Observation("tool", time.strftime("%H h")) if call.name == "note" else super().step(call)

    def tools(self) -> Sequence[dict[str, Any]]:
        return [PRESS, {**PRESS, "function": {**PRESS["function"], "name": "note"}}]

    def load_tasks(self, split: str) -> Sequence[Task]:
        calls = [ToolCall("press", {"name": "hall"}), ToolCall("note", {"name": "hall"})]
        note = Task.create(self.name, split, [f"press the hall and note it, {split}"], {}, [calls])
        return [*super().load_tasks(split), note]


class Unlisted(Switches):
    def load_tasks(self, split: str) -> Sequence[Task]:
        raise KeyError("no list")
