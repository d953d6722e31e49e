"""Count the corrupted instructions that pass verification, by class of corruption, and the sound ones that it refuses.

`python benchmarks/corrupted_words.py [--count 400]`

Sound tasks are the environment's training tasks and the tasks of the scripted explorer and synthesizer, if all gates except
`words_match` accept them. Each corruption keeps the reference, or adds a change that the instruction does not ask for, so every
other gate passes as before. A corrupted task passes if no gate refuses it by itself.
"""

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from words import PARAMS, _other_value, paraphrased

from coevolve.core.arithmetic import pin
from coevolve.core.mentions import words_of
from coevolve.core.records import Candidate, Verdict
from coevolve.core.seeding import rng_for
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.environments.environment import Environment
from coevolve.environments.knowledge import Knowledge, learn
from coevolve.environments.registry import make
from coevolve.stages.explore.explorer import explore
from coevolve.stages.explore.requests import requests
from coevolve.stages.explore.scripted_explorer import ScriptedExplorer
from coevolve.stages.synthesize.scripted_synthesizer import ScriptedSynthesizer
from coevolve.stages.synthesize.synthesizer import synthesize
from coevolve.stages.verify.judge import Judge
from coevolve.words.named_values import FUNCTION_WORDS

ORDINARY = [
    "banana",
    "river",
    "purple",
    "engine",
    "quietly",
    "seventeen",
    "umbrella",
    "gallop",
    "orchestra",
    "velvet",
    "borrow",
    "mountain",
    "lantern",
    "whisper",
    "copper",
    "tomorrow",
    "elbow",
    "carpet",
    "thunder",
    "pencil",
    "glacier",
    "yellow",
    "bottle",
    "wander",
    "saddle",
    "marble",
    "anchor",
    "feather",
    "basket",
    "violin",
]
NEGATIONS = ("not", "never", "do not", "don't", "except", "unless", "instead of")
HELPDESK = f"{Path(__file__).parent.parent}/tests/unit/environments/helpdesk.py:Helpdesk"
CONTROL = "\x07\x1b\x08\u202e\x9b"
HIDDEN = {  # changes that no instruction asks for, by environment or domain
    "miniworld": [("add_contact", {"name": "Zoe", "city": "Oslo"}), ("add_event", {"title": "dentist", "day": "sunday"}),
                  ("send_mail", {"contact_id": "", "subject": "news"})],
    "helpdesk": [("add_note", {"ticket_id": "", "text": "call back at noon"}), ("refund", {"ticket_id": "", "amount": 77})],
    "shop": [("query", {"sql": "UPDATE products SET stock = stock + 7 WHERE name = 'rake'"}), ("query", {"sql": "DELETE FROM orders WHERE id = 1"})],
    "library": [("query", {"sql": "UPDATE books SET copies = copies + 7 WHERE id = 1"}), ("query", {"sql": "DELETE FROM loans WHERE id = 1"})],
    "clinic": [("query", {"sql": "UPDATE doctors SET fee = fee + 7 WHERE id = 1"}), ("query", {"sql": "DELETE FROM visits WHERE id = 1"})],
}  # fmt: skip


def sound(world: Environment, count: int) -> list[Candidate]:
    """At most ``count`` candidates that pass, half of them synthesized if there are so many."""
    tasks = world.tasks("seed")
    config = PARAMS.explore.model_copy(update={"explorations": count, "tries": 6})
    wanted = requests(world, tasks[:64], [], [], config, 0, 0)
    found = explore(ScriptedExplorer(world, learn(world, tasks[:64], []), config), wanted, lambda done: None)
    made = synthesize(ScriptedSynthesizer(world, tasks[:64], 0), found, count, lambda done: None)
    judge = Judge(world.name, words="none", world=world)
    accepted = [one for one in made if judge.judge(line(one)).verdict.accepted]
    own = [Candidate(task.task_id, task, []) for task in tasks if len(task.turns) == 1]
    kept = [one for one in own if judge.judge(line(one)).verdict.accepted]
    print(f"{world.name}: {len(accepted)} of {len(made)} synthesized and {len(kept)} of {len(own)} own tasks are sound")
    half = max(count // 2, count - len(kept))
    return [*accepted[:half], *kept][:count]


def line(candidate: Candidate) -> str:
    return json.dumps(asdict(candidate))


def changed(candidate: Candidate, **changes: Any) -> Candidate:
    """``candidate`` with other words, world or reference."""
    old = candidate.task
    parts = {"turns": old.turns, "world": old.world, "reference": old.reference, **changes}
    task = Task.create(old.environment, old.split, tags=old.tags, provenance=old.provenance, **parts)
    return replace(candidate, candidate_id=task.task_id, task=task)


def said(candidate: Candidate, words: str) -> Candidate:
    return changed(candidate, turns=[words])


def everything(candidate: Candidate) -> Candidate:
    """``candidate``, which claims that its words ask for every call."""
    return replace(candidate, asks=[list(position) for position in candidate.task.positions])


def one_lookup(candidate: Candidate) -> Candidate:
    """``candidate``, which claims its first call too."""
    return replace(candidate, asks=[*candidate.asks, [0, 0]])


def swapped(tasks: Sequence[Candidate]) -> list[Candidate]:
    """Each task with the words of the next task that asks for something else."""
    result = []
    for number, candidate in enumerate(tasks):
        others = (tasks[(number + step) % len(tasks)] for step in range(1, len(tasks)))
        other = next(other for other in others if effects(other) != effects(candidate))
        result.append(said(candidate, other.task.turns[0]))
    return result


def effects(candidate: Candidate) -> list[object]:
    """The calls of a reference, without identifiers that only its world has."""
    return [
        [call.name, {key: value for key, value in call.arguments.items() if not key.endswith("_id")}]
        for call in candidate.task.calls
        if call.name != "tables"
    ]


def hidden(candidate: Candidate, rng: random.Random) -> Candidate:
    """``candidate`` with another change in its reference, and the claim that its words ask for all changes."""
    world = candidate.task.world
    name, arguments = rng.choice(HIDDEN[world.get("domain", candidate.task.environment)])
    if unset := [key for key, value in arguments.items() if value == ""]:
        known = [value for call in candidate.task.calls for key, value in call.arguments.items() if key in unset]
        name, arguments = (name, {**arguments, unset[0]: known[0]}) if known else ("top_up", {"amount": 77})
    calls = list(candidate.task.reference[-1])
    at = len(calls) - 1 if calls[-1].name in ("complete_task", "submit") else len(calls)
    world = {**world, "writable": True} if "domain" in world else world
    calls.insert(at, ToolCall(name, arguments))
    return everything(changed(candidate, world=world, reference=[*candidate.task.reference[:-1], calls]))


def random_word(rng: random.Random, vocabulary: Sequence[str]) -> str:
    letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9)))
    return rng.choice((letters, rng.choice(ORDINARY), rng.choice(vocabulary)))


def inside(words: str, new: str, rng: random.Random, gone: int = 0) -> str:
    """``words`` with ``new`` at a random place, instead of ``gone`` words."""
    parts = words.split()
    at = rng.randrange(1, max(len(parts) - gone, 2)) if not gone else rng.randrange(len(parts))
    return " ".join([*parts[:at], new, *parts[at + gone :]])


def corrupted(world: Environment, tasks: Sequence[Candidate]) -> dict[str, list[Candidate]]:
    """The corruptions of ``tasks``, by class."""
    known = learn(world, [candidate.task for candidate in tasks])
    vocabulary = sorted(
        {
            word
            for task in world.tasks("seed")
            for word in words_of(task.turns[0])
            if len(word) > 3 and word not in FUNCTION_WORDS
        }
    )
    exchanged = swapped(tasks)
    classes: dict[str, list[Candidate]] = {
        "swapped": exchanged,
        "swapped, a lookup claimed": [one_lookup(candidate) for candidate in exchanged],
        "swapped, all claimed": [everything(candidate) for candidate in exchanged],
    }
    for candidate in tasks:
        words, rng = candidate.task.turns[0], rng_for("corrupted words", candidate.task.task_id)
        word = random_word(rng, vocabulary)
        new: dict[str, Candidate | str | None] = {
            "hidden call, all claimed": hidden(candidate, rng),
            "value changed": other_value(candidate, known, rng),
            "word appended": f"{words} {word}",
            "word inserted": inside(words, word, rng),
            "word replaced": inside(words, random_word(rng, vocabulary), rng, gone=1),
            "all words random": " ".join(random_word(rng, vocabulary) for _ in words.split()),
            '"do not" before': f"{rng.choice(('do not', 'Do not', 'don’t', 'please do not', 'never'))} {words}",
            '"do not" after': f"{words}{rng.choice((', do not', ' do not', ', never', ' not'))}",
            "negation inside": inside(words, rng.choice(NEGATIONS), rng),
            "control character": inside(words, rng.choice(CONTROL), rng).replace(" ", rng.choice((" ", "")), 1),
        }
        for kind, corruption in new.items():
            if corruption is not None and corruption != words:
                made = said(candidate, corruption) if isinstance(corruption, str) else corruption
                classes.setdefault(kind, []).append(made)
    return classes


def other_value(candidate: Candidate, known: Knowledge, rng: random.Random) -> str | None:
    """The words with one value of the reference replaced by another fitting value."""
    calls = [CallOutcome(call.name, call.arguments, True) for call in candidate.task.calls]
    return next((new for call in calls if (new := _other_value(candidate.task.turns[0], call, known, rng))), None)


def verdicts(world: Environment, candidates: Sequence[Candidate], rules: str) -> list[Verdict]:
    judge = Judge(world.name, words=rules, world=world)
    return [judge.judge(line(candidate)).verdict for candidate in candidates]


def row(title: str, judged: Sequence[Verdict]) -> str:
    passed = [verdict for verdict in judged if verdict.accepted]
    unchecked = sum(any(gate.name == "words_match" for gate in verdict.unchecked) for verdict in passed)
    return f"| {title} | {len(judged)} | {len(passed) - unchecked} | {unchecked} | {len(passed) / len(judged):.1%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="sound tasks of each environment (default: 400)")
    parser.add_argument("--environments", nargs="+", default=["miniworld", "sql", HELPDESK])
    parser.add_argument("--words", default="", help="the rules; by default `values` without a phrasebook or lexicon")
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="print N wrongly accepted or refused tasks of each class"
    )
    args = parser.parse_args()
    pin()
    for name in args.environments:
        world = make(name)
        rules = args.words or ("language" if name in ("miniworld", "sql") else "values")
        tasks = sound(world, args.count)
        print(f"\n| {world.name}, `{rules}` | tasks | pass | pass, not checked | share |\n|---|---|---|---|---|")
        classes = {"sound": tasks, **corrupted(world, tasks)}
        classes |= {f"in free words: {kind}": found for kind, found in paraphrased(world.name).items()}
        for kind, candidates in classes.items():
            judged = verdicts(world, candidates, rules)
            print(row(kind, judged), flush=True)
            wrong = [
                (candidate, verdict)
                for candidate, verdict in zip(candidates, judged, strict=True)
                if verdict.accepted is not kind.endswith("sound")
            ]
            for candidate, verdict in wrong[: args.show]:
                calls = [(call.name, *call.arguments.values()) for call in candidate.task.calls]
                print("    ", repr(candidate.task.turns[0]), calls, verdict.refusal)


if __name__ == "__main__":
    main()
