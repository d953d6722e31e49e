"""Tasks that an author writes as questions, and the rule by which an episode solves one. Standard library only, for workers."""

import json
from collections.abc import Collection, Iterable
from typing import Any

from coevolve.core.hashing import state_hash
from coevolve.core.task import Task, ToolCall

World = dict[str, Any]
Question = tuple[str, World, list[ToolCall]]


def asked(name: str, split: str, questions: Iterable[Question]) -> list[Task]:
    """The tasks of the environment ``name`` for these ``questions``."""
    return [
        Task.create(name, split, [words], world, [calls], [calls[0].name if calls else "nothing"])
        for words, world, calls in questions
    ]


def met(start: str, end: str, answers: Collection[str], now: str, heard: Collection[str]) -> dict[str, bool]:
    """The checks of an episode. All states are hashes: ``start`` and ``end`` are those of the reference.

    If the reference changes the state, ``now`` must equal ``end``. If not, ``heard`` must also include its ``answers``. Equal
    numbers are equal answers, however they are written.
    """
    checks = {"state": now == end}
    if start == end:
        checks["heard"] = bool(answers) and {_meant(one) for one in answers} <= {_meant(one) for one in heard}
    return checks


def _meant(answer: str) -> str:
    """What an answer means: its value if it is JSON, or else its text."""
    try:
        return state_hash(json.loads(answer))
    except (ValueError, RecursionError):
        return answer
