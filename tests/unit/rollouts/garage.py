"""A class as people write one for TRL: `GRPOTrainer(environment_factory=Garage)`, with the rows of its data set."""

import json
from typing import Any


class Garage:
    """Cars in a garage. A row says which cars there are, and how they must stand in the end."""

    def reset(self, cars: str, goal: str, **row: Any) -> str:
        self.cars = json.loads(cars)
        self.goal = json.loads(goal)
        return f"\nThere are {len(self.cars)} cars."

    def find(self, owner: str) -> list[str]:
        """Find the cars of an owner.

        Args:
            owner: The owner's name.
        """
        return [plate for plate, car in self.cars.items() if car["owner"] == owner]

    async def park(self, plate: str, level: int) -> str:
        """Park a car on a level.

        Args:
            plate: The number plate.
            level: The level.
        """
        if plate not in self.cars:
            raise KeyError(f"no car {plate}")
        self.cars[plate]["level"] = level
        return f"{plate} is on level {level}"

    def get_reward(self) -> float:
        return float({plate: car["level"] for plate, car in self.cars.items()} == self.goal)

    def _helper(self) -> None:
        """No tool."""


OWNERS = ("Ada", "Bo", "Cy", "Di")


def row(number: int) -> dict[str, Any]:
    """A row. Two rows each have the same prompt, and other cars."""
    cars = {
        f"K-{10 * number + place}": {"owner": owner, "level": (number + place) % 3}
        for place, owner in enumerate(OWNERS)
    }
    owner, level = OWNERS[number // 2 % 4], 3 + number // 2
    plate = next(plate for plate, car in cars.items() if car["owner"] == owner)
    goal = {name: level if name == plate else car["level"] for name, car in cars.items()}
    prompt = [
        {"role": "system", "content": "You park cars."},
        {"role": "user", "content": f"Park the car of {owner} on level {level}."},
    ]
    return {"prompt": prompt, "cars": json.dumps(cars), "goal": json.dumps(goal)}


ROWS = [row(number) for number in range(12)]
