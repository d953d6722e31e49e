"""What TextWorld's module does without the game; the environment itself is in test_hosted."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevolve.core.task import Task, ToolCall
from coevolve.environments.textworld import kept


def test_tasks_are_made_once_also_when_several_want_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path))
    made = []

    def generate(split: str) -> list[Task]:
        made.append(split)
        threading.Event().wait(0.2)  # the others come meanwhile
        return [Task.create("textworld", split, ["Look."], {"seed": 1}, [[ToolCall("commands")]], [])]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: kept("some", "seed", generate), range(4)))
    assert made == ["seed"]
    assert all(one == found[0] for one in found) and len(found[0]) == 1
    assert kept("some", "seed", generate) == found[0] and made == ["seed"], "read from the cache"
