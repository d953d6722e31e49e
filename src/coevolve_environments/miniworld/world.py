"""Seeded start states: seven small apps whose identifiers only an observation reveals.

A state is ``{app: {entity_id: {field: value}}}``. It is JSON, so it can be copied, compared and hashed.
"""

import random
from typing import Any

from coevolve.core.seeding import rng_for

State = dict[str, dict[str, dict[str, Any]]]

NAMES = [
    "Ana",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gia",
    "Hugo",
    "Ines",
    "Jon",
    "Kim",
    "Leo",
    "Mia",
    "Noah",
    "Olga",
    "Paul",
    "Rosa",
    "Sam",
    "Tara",
    "Ugo",
    "Vera",
    "Will",
    "Yara",
    "Zoe",
]
CITIES = ["Rome", "Oslo", "Lima", "Cairo", "Delhi", "Paris", "Quito", "Seoul"]
SUBJECTS = [
    "rent",
    "budget",
    "party",
    "travel",
    "invoice",
    "lunch",
    "school",
    "garden",
    "music",
    "taxes",
    "report",
    "visa",
    "hotel",
    "repair",
    "match",
    "news",
]
TITLES = [
    "dentist",
    "yoga",
    "review",
    "concert",
    "dinner",
    "workshop",
    "hike",
    "exam",
    "picnic",
    "meeting",
    "chess",
    "opera",
]
FILES = [
    "notes",
    "plan",
    "photo",
    "thesis",
    "recipe",
    "letter",
    "map",
    "script",
    "poster",
    "survey",
    "contract",
    "diary",
]
ITEMS = ["lamp", "chair", "kettle", "scarf", "tent", "drum", "clock", "mug", "rope", "bike", "vase", "stove"]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
LOCKABLE = ("wallet", "files")


def _ids(rng: random.Random, letter: str, count: int) -> list[str]:
    """Distinct identifiers such as ``c47``: short, and not predictable from each other."""
    return [f"{letter}{number:02d}" for number in rng.sample(range(100), count)]


def build(seed: int) -> State:
    """The start state of world ``seed``. The same seed gives the same state."""
    rng = rng_for("miniworld", seed)
    names = rng.sample(NAMES, 8)
    names.append(names[0])  # two people share a name; their cities differ
    cities = [rng.choice(CITIES) for _ in names]
    cities[-1] = rng.choice([city for city in CITIES if city != cities[0]])
    people = list(zip(names, cities, strict=True))
    rng.shuffle(people)
    contacts = {
        key: {"name": name, "city": city, "blocked": False}
        for key, (name, city) in zip(_ids(rng, "c", len(people)), people, strict=True)
    }
    mails = {
        key: {"subject": subject, "from": rng.choice(names), "folder": "inbox"}
        for key, subject in zip(_ids(rng, "m", 7), rng.sample(SUBJECTS, 7), strict=True)
    }
    events = {
        key: {"title": title, "day": rng.choice(DAYS), "answer": "open"}
        for key, title in zip(_ids(rng, "e", 6), rng.sample(TITLES, 6), strict=True)
    }
    files = {
        key: {"name": name, "size": rng.randint(1, 99), "trashed": rng.random() < 0.25, "shared": []}
        for key, name in zip(_ids(rng, "f", 6), rng.sample(FILES, 6), strict=True)
    }
    items = {
        key: {"name": name, "price": rng.randint(2, 60), "list": "shelf"}
        for key, name in zip(_ids(rng, "i", 6), rng.sample(ITEMS, 6), strict=True)
    }
    balance = rng.randint(0, 9) if rng.random() < 0.3 else rng.randint(40, 99)
    return {
        "contacts": contacts,
        "mail": mails,
        "calendar": events,
        "files": files,
        "shop": items,
        "wallet": {"account": {"balance": balance}},
        "session": {app: {"locked": rng.random() < 0.25} for app in LOCKABLE},
    }


def copied(state: State) -> State:
    """A copy that shares nothing mutable (several times faster than ``copy.deepcopy``)."""
    return {
        app: {
            key: {field: list(value) if isinstance(value, list) else value for field, value in entity.items()}
            for key, entity in entities.items()
        }
        for app, entities in state.items()
    }
