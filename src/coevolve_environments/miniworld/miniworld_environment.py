"""miniworld: AppWorld in miniature, so that the whole loop runs on any laptop.

It has about thirty tools in seven seeded apps, task families with Zipf frequencies, identifiers that only an observation
reveals, look-alike tools, preconditions with informative errors, and a checker of goal, collateral and answer.
"""

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.seeding import derive_seed, rng_for
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.chains import source_of
from coevolve.environments.environment import CLOSERS, CONNECTIVES, OPENERS, Environment, Phrasebook
from coevolve.words.phrase_generator import Question, instruct
from coevolve_environments.miniworld.apps import COMPLETE, LOOKALIKES, MUTATING, SHIFTED_ARGUMENTS, SHIFTED_TOOLS, TOOLS
from coevolve_environments.miniworld.expert import Intent, solve
from coevolve_environments.miniworld.phrases import PHRASES
from coevolve_environments.miniworld.session import MiniworldSession, renamed, schemas
from coevolve_environments.miniworld.world import (
    CITIES,
    DAYS,
    FILES,
    ITEMS,
    LOCKABLE,
    NAMES,
    SUBJECTS,
    TITLES,
    State,
    build,
)

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


# A family is a kind of goal, and a task has one to three goals (more in `hard`). From frequent to rare; family r has frequency
# 1/r. The split `seed` has only families from the head.
FAMILIES = [
    "archive_mail",
    "pay",
    "add_event",
    "ask_city",
    "add_to_cart",
    "share_file",
    "delete_mail",
    "cancel_event",
    "send_mail",
    "trash_file",
    "ask_day",
    "request_money",
    "move_event",
    "forward_mail",
    "ask_price",
    "block_contact",
    "add_to_wishlist",
    "decline_event",
    "restore_file",
    "ask_sender",
    "copy_file",
    "report_mail",
    "delete_contact",
    "accept_event",
    "top_up",
    "ask_balance",
    "add_contact",
    "lock",
]
HEAD = FAMILIES[:6]
QUESTIONS = {
    "ask_city": ("find_contact", "contacts", "name", "city"),
    "ask_day": ("find_event", "calendar", "title", "day"),
    "ask_price": ("find_item", "shop", "name", "price"),
    "ask_sender": ("find_mail", "mail", "subject", "from"),
}
LOOKUPS = {  # for an argument, the tool that finds it, the app, and the key of the search
    "event_id": ("find_event", "calendar", "title"),
    "mail_id": ("find_mail", "mail", "subject"),
    "file_id": ("find_file", "files", "name"),
    "item_id": ("find_item", "shop", "name"),
}
GIVEN = {"subject": SUBJECTS, "title": TITLES, "day": DAYS, "name": NAMES, "city": CITIES, "app": LOCKABLE}
GOALS = {"seed": (1, 2), "validation": (1, 2), "test": (1, 2), "shifted": (1, 2), "hard": (3, 4)}


def _contact(state: State, rng: random.Random, used: set[str]) -> list[Any]:
    key = _fresh(state, "contacts", rng, used)
    person = state["contacts"][key]
    namesakes = [other for other in state["contacts"].values() if other["name"] == person["name"]]
    wanted = {"name": person["name"]}
    return ["find_contact", {**wanted, "city": person["city"]} if len(namesakes) > 1 else wanted]


def _fresh(state: State, app: str, rng: random.Random, used: set[str], **wanted: Any) -> str:
    """An entity of ``app`` that no other goal of the task uses."""
    fitting = [
        key
        for key, entity in state[app].items()
        if key not in used and all(entity[field] == value for field, value in wanted.items())
    ]
    if not fitting:
        raise CoevolveError(f"this world has no further entity in {app}")
    key = rng.choice(fitting)
    used.add(key)
    return key


def goal_of(family: str, state: State, rng: random.Random, used: set[str]) -> dict[str, Any]:
    """A goal of ``family`` in this world. Raises a CoevolveError if the world allows none."""
    if family == "ask_balance":
        return {"ask": ["balance", {}, "balance"]}
    if family in QUESTIONS:
        lookup, app, key, field = QUESTIONS[family]
        if app == "contacts":
            singles = [c for c in state[app].values() if sum(o["name"] == c["name"] for o in state[app].values()) == 1]
            return {"ask": [lookup, {"name": rng.choice(singles)["name"]}, field]}
        return {"ask": [lookup, {key: state[app][_fresh(state, app, rng, used)][key]}, field]}
    find: dict[str, Any] = {}
    give: dict[str, Any] = {}
    entity: dict[str, Any] = {}
    for argument in TOOLS[family].arguments:
        if argument == "contact_id":
            find[argument] = _contact(state, rng, used)
        elif argument in LOOKUPS:
            lookup, app, key = LOOKUPS[argument]
            trashed = {"restore_file": {"trashed": True}, "share_file": {}}.get(family, {"trashed": False})
            entity = state[app][_fresh(state, app, rng, used, **(trashed if app == "files" else {}))]
            find[argument] = [lookup, {key: entity[key]}]
        elif argument == "amount":
            give[argument] = rng.randint(2, 60)
        else:
            fitting = [
                value for value in GIVEN[argument] if value != entity.get(argument)
            ]  # an event moves to another day
            if argument == "app":
                fitting = [app for app in LOCKABLE if not state["session"][app]["locked"]]
            if not fitting:
                raise CoevolveError("this world has nothing to lock")
            give[argument] = rng.choice(fitting)
    return {"tool": family, "find": find, "give": give}


def asked(chain: Sequence[CallOutcome], intent: Intent) -> tuple[list[int], Question | None]:
    """Positions of the calls that the goals ask for, in order, and the question, if there is one."""
    positions: list[int] = []
    question = None
    for goal in intent:
        if "ask" in goal:
            lookup, arguments, field = goal["ask"]
            position = max(i for i, c in enumerate(chain) if c.name == lookup and c.arguments == arguments)
            question = Question(position, field)
        else:
            start = positions[-1] + 1 if positions else 0
            positions.append(next(i for i in range(start, len(chain)) if _meets(chain[i], goal)))
    return positions, question


def _meets(call: CallOutcome, goal: dict[str, Any]) -> bool:
    return call.name == goal["tool"] and all(call.arguments.get(key) == value for key, value in goal["give"].items())


def generate_one(split: str, families: Sequence[str], seed: int, variant: str) -> Task:
    """A task of the given families, in this order. Draws worlds until one allows all of them."""
    for attempt in range(100):
        rng = rng_for("miniworld task", split, variant, seed, attempt)
        world = derive_seed("miniworld world", split, seed, attempt) % 2**31
        state = build(world)
        used: set[str] = set()
        try:
            intent = [goal_of(family, state, rng, used) for family in families]
            draft = Task("", "miniworld", split, [""], {"seed": world}, [])
            chain = solve(MiniworldSession(), draft, intent)
            session = MiniworldSession()
            task = _task(split, families, world, variant, chain, intent, rng)
            made = solve(session, task, intent)
        except (CoevolveError, StopIteration):
            continue
        given = all(
            key.endswith("_id") or key == "answer" or source_of(key, value, chain, row) is None
            for row, call in enumerate(chain)
            for key, value in call.arguments.items()
        )  # values that the user names must not count as revealed by a lookup that shows them too
        if (
            given
            and is_success(session.score().reward)
            and [c.name for c in made] == [c.name for c in task.reference[0]]
        ):
            return task
    raise CoevolveError(f"no world for the families {', '.join(families)}; remove one of them")


def _task(
    split: str,
    families: Sequence[str],
    world: int,
    variant: str,
    chain: Sequence[CallOutcome],
    intent: Intent,
    rng: random.Random,
) -> Task:
    positions, question = asked(chain, intent)
    words = instruct(chain, positions, question, PHRASES, rng)
    calls = [renamed(ToolCall(call.name, call.arguments), variant) for call in chain]
    assert chain[-1].name == COMPLETE
    place = {"seed": world, "variant": variant, "intent": intent}
    return Task.create("miniworld", split, [words], place, [calls], ["+".join(families), *families])


def draw_families(split: str, rng: random.Random, index: int, every: bool) -> list[str]:
    """The families of task ``index``: drawn by Zipf from the head, or one after another (``every``), with further families."""
    low, high = GOALS.get(split, (1, 2))
    count = rng.randint(low, high) if low > 1 else rng.choices((1, 2, 3), (0.6, 0.3, 0.1))[0]
    pool = FAMILIES if every else HEAD
    weights = [1.0 if every else 1.0 / (rank + 1) for rank in range(len(pool))]
    chosen = [pool[index % len(pool)]] if every else rng.choices(pool, weights)
    while len(chosen) < count:
        other = rng.choices(pool, weights)[0]
        if other not in chosen:
            chosen.append(other)
    rng.shuffle(chosen)
    questions = [family for family in chosen if family.startswith("ask_")]
    acts = [family for family in chosen if not family.startswith("ask_") and family != "lock"]
    locks = [family for family in chosen if family == "lock"]
    if locks:  # a question about a locked app would need to unlock it again
        questions = [family for family in questions if family != "ask_balance"]
    return [*acts, *locks, *questions[:1]]
