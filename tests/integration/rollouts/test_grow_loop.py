"""`coevolve grow` with a served model as its explorer."""

import json
from pathlib import Path

import pytest
from coevolve.rollouts.grow_options import GrowOptions
from coevolve.rollouts.grown_tasks import _Growth, grow

from coevolve.core.io import write_jsonl
from coevolve.core.records import Verdict
from coevolve.core.trajectories import write_trajectories
from coevolve.environments.registry import make
from tests.integration.endpoint.proxy import proxy
from tests.unit.rollouts.test_grow_loop import KNOWN, MADE


def test_served_model_explores_and_is_asked_once(
    tmp_path: Path, explorer_server: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url, model = explorer_server
    options = {"known": KNOWN, "count": 1, "explorer": "endpoint", "url": url, "model": model, "out": "out"}
    grown = grow(MADE / "verl", "miniworld", **options)  # type: ignore[arg-type]
    assert grown.tasks and all("add_event" in task.tools for task in grown.tasks)
    spend = json.loads(Path("out", "work", "requests", "explore", "spend.json").read_text())
    assert spend["replies"] > 0 and [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_policy_whose_server_never_answers_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.endpoint.client.LONGEST_PAUSE", 0.0)
    tasks = list(make("miniworld").tasks("seed")[:2])
    options = GrowOptions(count=2, samples=1, policy="http://proxy.test/v1", model="m")
    growth = _Growth("miniworld", make("miniworld"), [], {}, options, tmp_path)
    write_jsonl(growth.work / "accepted.jsonl", tasks)
    write_jsonl(growth.work / "verdicts.jsonl", [Verdict(task.task_id, task.task_id, True, []) for task in tasks])
    write_trajectories(growth.work / "trajectories.parquet", [])
    with proxy(script=[(200, {}, "<html>busy</html>")] * 100):
        lines = growth.select()
    assert any(line.startswith("2 of 2 episodes count nowhere") and "busy" in line for line in lines), lines
    assert '"pass_rate":0' not in (tmp_path / "tasks.jsonl").read_text().replace(" ", "")
