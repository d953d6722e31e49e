"""Lamps in a house: a whole environment for coevolve in thirty lines."""

from itertools import combinations

from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment

ROOMS = ("hall", "attic", "cellar", "kitchen", "study", "bath", "porch", "garage")


class House:
    def __init__(self, lit: list[str]) -> None:
        self.lit = sorted(lit)

    def switch(self, room: str) -> str:
        """Switch the lamp of a room: on if it was off, off if it was on."""
        if room not in ROOMS:
            raise ValueError(f"there is no room {room}")
        self.lit = sorted(set(self.lit) ^ {room})
        return "on" if room in self.lit else "off"


class Mine(MethodEnvironment):
    name, simulator = "mine", House

    def questions(self, split):
        for one, other in list(combinations(ROOMS, 2))[("seed", "validation", "test").index(split) :: 3]:
            yield f"make it dark in the {one}", {"lit": [one, other]}, [ToolCall("switch", {"room": one})]
            yield f"light the {other}", {"lit": [one]}, [ToolCall("switch", {"room": other})]
