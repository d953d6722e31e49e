"""miniworld: AppWorld in miniature, so that the whole loop runs on any laptop.

It has about thirty tools in seven seeded apps, task families with Zipf frequencies, identifiers that only an observation
reveals, look-alike tools, preconditions with informative errors, and a checker of goal, collateral and answer.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.task import Task
from coevolve.environments.environment import CLOSERS, CONNECTIVES, OPENERS, Environment, Phrasebook
from coevolve.environments.miniworld.apps import LOOKALIKES, MUTATING, SHIFTED_ARGUMENTS, SHIFTED_TOOLS, TOOLS
from coevolve.environments.miniworld.families import FAMILIES, HEAD, draw_families, generate_one
from coevolve.environments.miniworld.phrases import PHRASES
from coevolve.environments.miniworld.session import MiniworldSession, schemas
from coevolve.environments.miniworld.world import CITIES, DAYS, FILES, ITEMS, LOCKABLE, NAMES, SUBJECTS, TITLES

__all__ = ["FAMILIES", "HEAD", "LOOKALIKES", "MUTATING", "Miniworld"]

VERSION = "1"
SIZES = {"seed": 256, "broad": 256, "validation": 256, "test": 256, "hard": 256, "shifted": 256}


def _in_both_spellings(phrases: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """``phrases`` by tool or ``tool.field``, for the tools and arguments of both variants."""
    both: dict[str, list[str]] = {}
    for key, templates in phrases.items():
        tool, dot, field = key.partition(".")
        for name in dict.fromkeys((tool, SHIFTED_TOOLS.get(tool, tool))):
            both[f"{name}{dot}{field}"] = list(dict.fromkeys([*templates, *map(_shifted, templates)]))
    return both


def _shifted(template: str) -> str:
    for old, new in SHIFTED_ARGUMENTS.items():
        template = template.replace(f"{{{old}}}", f"{{{new}}}")
    return template


class Miniworld(Environment):
    """The default environment, which needs no installation."""

    name = "miniworld"
    fingerprint = f"miniworld-{VERSION}"
    license = "Apache-2.0"
    panels = ("validation", "test", "hard", "shifted")
    more_splits = ("broad",)
    phrasebook = Phrasebook(
        _in_both_spellings(PHRASES.actions),
        _in_both_spellings(PHRASES.lookups),
        _in_both_spellings(PHRASES.fields),
        _in_both_spellings(PHRASES.questions),
        complete=True,
    )

    def load_tasks(self, split: str) -> Sequence[Task]:
        return _frozen(split)

    def tools(self) -> Sequence[dict[str, Any]]:
        known = {schema["function"]["name"]: schema for variant in ("plain", "shifted") for schema in schemas(variant)}
        return list(known.values())

    def open(self) -> MiniworldSession:
        return MiniworldSession()

    def fresh_world(self, task: Task, seed: int) -> dict[str, Any]:
        """Another world of the same variant as the world of ``task``."""
        return {"seed": derive_seed("fresh world", seed) % 2**31, "variant": task.world.get("variant", "plain")}

    def category(self, task: Task) -> str:
        goals = task.tags[0].count("+") + 1
        return f"{goals} goal{'s' * (goals > 1)}"

    @staticmethod
    def generate(split: str, count: int, seed: int, every: bool = False) -> list[Task]:
        """``count`` new tasks of the seed distribution, or with ``every``, evenly of all families."""
        return [_generated(split, derive_seed(seed, index), index, every) for index in range(count)]

    @staticmethod
    def values() -> list[str]:
        """All values in instructions: names, cities, subjects, titles, files, items, days and apps."""
        return [*NAMES, *CITIES, *SUBJECTS, *TITLES, *FILES, *ITEMS, *DAYS, *LOCKABLE]

    @staticmethod
    def lexicon() -> tuple[list[str], list[str]]:
        """Strings that the tokenizer keeps as one token: names (tools, keys, enumerable values), and words of instructions."""
        names = [*TOOLS, *(key for tool in TOOLS.values() for key in tool.arguments)]
        shown = [
            "id",
            "from",
            "size",
            "price",
            "inbox",
            "ok",
            "locked",
            "trashed",
            "blocked",
            "already",
            "holds",
        ]
        phrases = [
            *OPENERS,
            *CLOSERS,
            *CONNECTIVES,
            *(
                one
                for table in (PHRASES.actions, PHRASES.lookups, PHRASES.questions)
                for many in table.values()
                for one in many
            ),
        ]
        known = dict.fromkeys([*names, *Miniworld.values(), *shown])
        words = [word for phrase in phrases for word in phrase.split() if "{" not in word and word not in known]
        return list(known), list(dict.fromkeys(words))


def _generated(split: str, seed: int, index: int, every: bool) -> Task:
    families = draw_families(split, rng_for("miniworld families", split, seed), index, every)
    return generate_one(split, families, seed, "shifted" if split == "shifted" else "plain")


@lru_cache
def _frozen(split: str) -> tuple[Task, ...]:
    """The tasks of a split. ``seed`` has the head families; ``broad`` and the panels are balanced over all families."""
    found: dict[str, Task] = {}
    index = 0
    while len(found) < SIZES[split]:
        task = _generated(split, derive_seed("frozen", split, index), index, split != "seed")
        found.setdefault(task.task_id, task)
        index += 1
    return tuple(found.values())
