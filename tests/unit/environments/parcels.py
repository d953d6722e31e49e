"""A parcel desk: some instructions have a second part that leaves the parcel to the first."""

import random
from collections.abc import Iterator
from typing import Any

from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment, Question

NAMES = ("Ana", "Ben", "Cleo", "Dev", "Eva", "Finn", "Gus", "Hana")
CITIES = ("Oslo", "Lima", "Kyiv", "Rome")
NOTES = ("ring twice", "use the back door", "call first")


class Depot:
    def __init__(self, parcels: list[dict[str, Any]]) -> None:
        self.parcels = {one["id"]: dict(one) for one in parcels}
        self.notes: list[list[Any]] = []

    def find_parcels(self, name: str) -> list[dict[str, Any]]:
        """Find the parcels of a customer."""
        return [one for one in self.parcels.values() if one["name"] == name]

    def redirect(self, parcel_id: int, city: str) -> str:
        """Send a parcel to another city."""
        self._parcel(parcel_id)["city"] = city
        return "ok"

    def hold(self, parcel_id: int) -> str:
        """Hold a parcel at the depot."""
        self._parcel(parcel_id)["status"] = "held"
        return "ok"

    def release(self, parcel_id: int) -> str:
        """Release a held parcel."""
        if self._parcel(parcel_id)["status"] != "held":
            raise ValueError("hold the parcel first")
        self._parcel(parcel_id)["status"] = "moving"
        return "ok"

    def add_note(self, parcel_id: int, text: str) -> str:
        """Add a note for the driver."""
        self._parcel(parcel_id)
        self.notes.append([parcel_id, text])
        return "ok"

    def _parcel(self, parcel_id: int) -> dict[str, Any]:
        if parcel_id not in self.parcels:
            raise ValueError(f"no parcel {parcel_id}")
        return self.parcels[parcel_id]


def parcels(rng: random.Random, count: int = 4) -> list[dict[str, Any]]:
    return [
        {"id": number, "name": name, "city": rng.choice(CITIES), "status": rng.choice(["moving", "held", "delivered"])}
        for number, name in zip(rng.sample(range(100, 999), count), rng.sample(NAMES, count), strict=True)
    ]


class Parcels(MethodEnvironment):
    name, simulator = "parcels", Depot

    def questions(self, split: str) -> Iterator[Question]:
        rng = random.Random(f"parcels {split}")
        for number in range({"seed": 48, "validation": 8, "test": 8}[split]):
            world = parcels(rng)
            one, city, note = rng.choice(world), rng.choice(CITIES), rng.choice(NOTES)
            one["status"] = "held" if number % 6 == 2 else "moving"
            about = {"parcel_id": one["id"]}
            redirect, hold = ToolCall("redirect", {**about, "city": city}), ToolCall("hold", about)
            add, of = ToolCall("add_note", {**about, "text": note}), f"the parcel of {one['name']}"
            words, calls = (
                (f"send {of} to {city}", [redirect]),
                (f"hold {of} at the depot", [hold]),
                (f"release {of}", [ToolCall("release", about)]),
                (f"tell the driver of {one['name']}'s parcel: {note}", [add]),
                (f"hold {of} and add the note {note}", [hold, add]),
                (f"send {of} to {city} and add the note {note}", [redirect, add]),
            )[number % 6]
            yield words, {"parcels": world}, [ToolCall("find_parcels", {"name": one["name"]}), *calls]
