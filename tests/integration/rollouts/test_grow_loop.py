"""`coevolve grow` with a served model as its explorer, or as its agent."""

import json
from pathlib import Path

import pytest

from coevolve.rollouts.grow_loop import grow
from tests.integration.endpoint.proxy import proxy
from tests.unit.rollouts.test_grow_loop import KNOWN, MADE


def test_served_model_explores_and_is_asked_once(
    tmp_path: Path, explorer_server: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url, model = explorer_server
    params = {"explore.explorer": "endpoint", "endpoint.url": url, "endpoint.model": model}
    grown = grow(MADE / "verl", "miniworld", known=KNOWN, count=1, params=params, out="out")
    assert grown.tasks and all("add_event" in task.tools for task in grown.tasks)
    spend = json.loads(Path("out/data/0/requests/explore/spend.json").read_text())
    assert spend["replies"] > 0 and [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_policy_whose_server_never_answers_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.endpoint.client.LONGEST_PAUSE", 0.0)
    params = {"verify.policy": "http://proxy.test/v1", "endpoint.model": "m", "verify.pass_rate_samples": 1}
    said: list[str] = []
    with proxy(script=[(200, {}, "<html>busy</html>")] * 200):
        grow(MADE / "verl", "miniworld", known=KNOWN, count=1, params=params, out=tmp_path / "out", say=said.append)
    assert any("episodes count nowhere" in line and "busy" in line for line in said), said
    assert '"pass_rate":0' not in (tmp_path / "out/tasks.jsonl").read_text().replace(" ", "")
