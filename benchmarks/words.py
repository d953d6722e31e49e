"""Count the instructions that ask for something else than their reference and still pass verification, by kind of corruption.

`python benchmarks/words.py [--count 400] [--solver policies/3 --attempts 4]`

Sound tasks are those that the scripted explorer and synthesizer make and every gate accepts (miniworld), and an environment's own
tasks (SQL, BFCL's single-turn functions). Only the words of each task are corrupted, as text. The reference stays, so every other gate
passes as before. With --solver, a policy plays the tasks that pass. If it never succeeds, the task is rejected.
"""

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path

from coevolve.core.arithmetic import pin
from coevolve.core.records import Candidate
from coevolve.core.seeding import rng_for
from coevolve.core.success import is_success
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.chains import replay
from coevolve.environments.environment import CLOSERS, CONNECTIVES, OPENERS, Environment
from coevolve.environments.knowledge import Knowledge, learn
from coevolve.environments.registry import make
from coevolve.policies.loading import open_policy
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.schema import load
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.gates import WORDS
from coevolve.stages.verify.judge import accepted, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_rates import pass_counts
from coevolve.words.named_values import QUOTED
from coevolve.words.words_match import words_match

PARAMS = load(Path(__file__).parent.parent / "params.yaml")
KINDS = ("value", "tool", "entity", "order", "left out", "added")
SQL_EDITS = {  # kind: pairs of texts, each of which may replace the other
    "tool": [("How many", "Which"), ("Raise", "Lower"), ("on average", "in all"), ("in all", "on average")],
    "entity": [("customers", "products"), ("members", "books"), ("patients", "doctors"), ("orders", "products")],
    "order": [("dearest", "cheapest"), ("cheapest", "dearest"), ("most", "fewest"), ("later", "earlier"),
              ("more than", "fewer than")],
    "left out": [(" Name and price,", " Price,"), (" and number", ""), (" and how many products it has", ""), (" pending", ""),
                 (" Title and year.", " Title."), (" and fee", ""), (" Each name once.", ""), (" Each once.", "")],
}  # fmt: skip


def sound(name: str, count: int) -> list[Candidate]:
    world = make(name)
    if name != "miniworld":
        turns = zip_longest(*(world.tasks(split) for split in ("seed", *world.panels)))
        tasks = [task for one in turns for task in one if task is not None]
        return [Candidate(task.task_id, task, []) for task in tasks[:count]]
    tasks = world.tasks("seed")[:64]
    config = PARAMS.explore.model_copy(update={"explorations": count, "tries": 6})
    wanted = requests(world, tasks, [], [], config, 0, 0)
    found = explore(ScriptedExplorer(world, learn(world, tasks, []), config), wanted, lambda done: None)
    candidates = synthesize(ScriptedSynthesizer(world, tasks, 0), found, count, lambda done: None)
    judged = verify(name, [json.dumps(asdict(one)) for one in candidates], Library(tasks, {}, 1.0), words="none")
    kept = {task.task_id for task in accepted(judged)}
    return [one for one in candidates if one.task.task_id in kept]


def corruptions(
    world: Environment, one: Candidate, others: Sequence[Candidate], known: Knowledge
) -> Iterator[tuple[str, str]]:
    """(kind, words) for each way to corrupt the words of ``one``."""
    words, rng = one.task.turns[0], rng_for("corrupt words", one.task.task_id)
    with closing(world.open()) as session:
        played = replay(session, one.task)
        chain, changed = played.chain, played.changed
        offered = {schema["function"]["name"] for schema in session.reset(one.task).tools or ()}
    looked_up = [call for call, changes in zip(chain, changed, strict=True) if not changes]
    acted = [call for call, changes in zip(chain, changed, strict=True) if changes]
    sources = {"value": acted, "entity": looked_up} if world.name == "miniworld" else {"value": chain}
    for kind, calls in sources.items():
        found = [other for call in calls if (other := _other_value(words, call, known, rng)) is not None]
        yield from [(kind, found[0])] if found else []
    if world.name == "sql":
        for kind, pairs in SQL_EDITS.items():
            found = [words.replace(old, new, 1) for old, new in pairs if old in words and not _the_same(words, old)]
            yield from [(kind, rng.choice(found))] if found else []
    if (other := _other_tool(words, world, {call.name for call in chain}, offered, rng)) is not None:
        yield "tool", other
    donors = [other for other in others if other.task.world.get("domain") == one.task.world.get("domain")]
    more = rng.choice(donors).task.turns[0]
    if world.name != "miniworld":
        yield "added", f"{words} {more}"
        return
    opener, parts, connective, closer = _cut(words)
    if len(parts) > 1:
        if _order_matters(world, one):
            yield "order", opener + connective.join(reversed(parts)) + closer
        yield "left out", opener + rng.choice(parts) + closer
    added = rng.choice(_cut(more)[1])
    if added not in words:
        yield "added", opener + (connective or " and ").join([*parts, added]) + closer


def _the_same(words: str, old: str) -> bool:
    """Whether words with a replacement for ``old`` ask for the same: the money spent on all orders is the money spent on all products,
    and "how many" also asks for the number.
    """
    return (old == "orders" and "spent" in words) or (
        old == " and number" and "ow many" in words + words.replace("often", "many")
    )


def _other_value(words: str, call: CallOutcome, known: Knowledge, rng: random.Random) -> str | None:
    """``words`` with one value of ``call`` replaced by another fitting value."""
    for key, value in call.arguments.items():
        fitting = known.fitting(call.name, key)
        inner = [a or b for a, b in QUOTED.findall(value)] if isinstance(value, str) and " " in value else []
        for part in inner or [value]:
            text = str(part)
            pool = [x for x in fitting if isinstance(x, str)] if inner else fitting
            others = (
                sorted({a or b for x in pool for a, b in QUOTED.findall(x)}) if inner else [str(x) for x in fitting]
            )
            others = [x for x in others if x.isdecimal() == text.isdecimal() and x not in words and x != text]
            if isinstance(part, int | float) and not isinstance(part, bool):
                others = [str(part + 1)]
            place = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
            if others and len(place.findall(words)) == 1:
                return "".join(
                    (words[: place.search(words).start()], rng.choice(others), words[place.search(words).end() :])
                )  # type: ignore[union-attr]
    return None


def _other_tool(words: str, world: Environment, used: set[str], offered: set[str], rng: random.Random) -> str | None:
    """``words`` with a phrase of a used tool replaced by a phrase of another offered tool with the same arguments."""
    book = {tool: phrases for tool, phrases in world.phrasebook.actions.items() if tool in offered}
    slots = {tool: frozenset(re.findall(r"\{(\w+)\}", found[0])) for tool, found in book.items()}
    for tool in sorted(used & set(book)):
        others = [
            phrase for other in book if other not in used and slots[other] == slots[tool] for phrase in book[other]
        ]
        for template in book[tool] if others else ():
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(template))
            found = re.search(rf"(?:^|(?<= )){pattern}(?=$| (?:and|then|,|;|please|thanks|for|if))", words)
            if found:
                new = rng.choice(others)
                for key, value in found.groupdict().items():
                    new = new.replace(f"{{{key}}}", value)
                return words[: found.start()] + new + words[found.end() :]
    return None


def _cut(words: str) -> tuple[str, list[str], str, str]:
    """Opener, parts, connective and closer of an instruction of miniworld."""
    opener = next((f"{one} " for one in OPENERS if one and words.startswith(f"{one} ")), "")
    closer = next((f" {one}" for one in CLOSERS if one and words.endswith(f" {one}")), "")
    middle = words[len(opener) : len(words) - len(closer) or None]
    connective = next((one for one in sorted(CONNECTIVES, key=len, reverse=True) if one in middle), "")
    return opener, middle.split(connective) if connective else [middle], connective, closer


def _order_matters(world: Environment, one: Candidate) -> bool:
    """Whether the asked calls fail in reverse order."""
    calls = list(one.task.reference[0])
    places = sorted(row for _, row in one.asks if calls[row].name != calls[-1].name)
    for place, call in zip(places, [calls[row] for row in reversed(places)], strict=True):
        calls[place] = call
    session = world.open()
    session.reset(one.task)
    for call in calls:
        if session.step(ToolCall(call.name, call.arguments)).done:
            break
    return not is_success(session.score().reward)


def paraphrased(name: str) -> dict[str, list[Candidate]]:
    """Instructions by kind, written by an author who saw the calls, but neither the rules nor the lexicon."""
    rows = json.loads((Path(__file__).parent / "paraphrases.json").read_text(encoding="utf-8")).get(name, [])
    found: dict[str, list[Candidate]] = {}
    for one in rows:
        calls = one.get("calls") or [
            ["tables", {}],
            ["submit" if one["sql"].startswith("SELECT") else "query", {"sql": one["sql"]}],
        ]
        reference = [[ToolCall(tool, arguments) for tool, arguments in calls]]
        task = Task.create(name, "test", [one["words"]], one["world"], reference, [one["family"]])
        found.setdefault(one["kind"], []).append(Candidate(task.task_id, task, one.get("asks", [])))
    return found


def judged(world: Environment, candidates: Sequence[Candidate], rules: str) -> list[bool]:
    """Whether each candidate passes the gate `words_match`."""
    session = world.open()
    if rules == "none":
        return [True] * len(candidates)
    return [
        words_match(world, session, one, replay(session, one.task), rules == "values").passed is not False
        for one in candidates
    ]


def corrupted(world: Environment, tasks: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """The tasks with corrupted words, by kind, at most one per task and kind."""
    known = learn(world, [one.task for one in tasks])
    wrong: dict[str, list[Candidate]] = {kind: [] for kind in KINDS}
    for one in tasks:
        made = {kind: words for kind, words in corruptions(world, one, tasks, known) if words != one.task.turns[0]}
        for kind, words in made.items():
            old = one.task
            task = Task.create(old.environment, old.split, [words], old.world, old.reference, old.tags, old.provenance)
            wrong[kind].append(replace(one, task=task))
    return wrong


def solved(world: Environment, candidates: Sequence[Candidate], policy: Policy | Replicas, attempts: int) -> list[bool]:
    tasks, limits = [one.task for one in candidates], Limits.of(PARAMS.policy)
    found = pass_counts(policy, world, tasks, limits, attempts, 0, lambda done: None)
    return [task.task_id in found and found[task.task_id].successes > 0 for task in tasks]


def row(rules: str, by_kind: dict[str, list[bool]], kept: Sequence[bool]) -> str:
    through, whole = (sum(map(count, by_kind.values())) for count in (sum, len))
    lost, caught = len(kept) - sum(kept), whole - through
    precision = f"{caught / (caught + lost):.3f}" if caught + lost else ""
    cells = [f"{sum(found)} of {len(found)}" if found else "" for found in by_kind.values()]
    return f"| {' | '.join([rules, *cells])} | {through / whole:.3f} | {lost / len(kept):.3f} | {precision} | {caught / whole:.3f} |"


def table(world: Environment, title: str, tasks: Sequence[Candidate], wrong: dict[str, list[Candidate]]) -> None:
    print(f"\n{world.name}: {len(tasks)} {title}\n")
    print(f"| rules | {' | '.join(f'{kind} passes' for kind in KINDS)} | all pass | sound lost | precision | recall |")
    print("|---" * (len(KINDS) + 5) + "|")
    for rules in WORDS:
        print(row(rules, {kind: judged(world, wrong[kind], rules) for kind in KINDS}, judged(world, tasks, rules)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="most sound tasks of each environment (default: 400)")
    parser.add_argument("--environments", nargs="+", default=["miniworld", "sql", "bfcl_single"])
    parser.add_argument("--solver", type=Path, help="a policy that plays miniworld's tasks")
    parser.add_argument("--attempts", type=int, default=4)
    args = parser.parse_args()
    pin()
    for name in args.environments:
        world, tasks = make(name), sound(name, args.count)
        wrong = corrupted(world, tasks)
        table(world, "sound tasks", tasks, wrong)
        if said := paraphrased(name):
            table(world, "sound tasks in free words", said.pop("sound"), {kind: said[kind] for kind in KINDS})
        if args.solver and name == "miniworld":
            policy, tries = open_policy(args.solver, PARAMS.policy, 1.0), args.attempts
            by_kind = {kind: solved(world, wrong[kind], policy, tries) for kind in KINDS}
            print(row(f"{tries} attempts", by_kind, solved(world, tasks, policy, tries)), flush=True)


if __name__ == "__main__":
    main()
