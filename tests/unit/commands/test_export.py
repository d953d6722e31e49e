"""`coevolve export sft --tasks` turns accepted tasks into training data outside a project."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.cli import parser
from coevolve.commands import export
from coevolve.core.champion import Challenge, Champion
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_json, write_jsonl
from coevolve.core.outcomes import PanelMetrics
from coevolve.core.paths import Paths
from coevolve.environments import registry
from coevolve.environments.registry import make
from coevolve.stages.report.run_summary import SUMMARY, Summary, run_hash
from tests import ROOT
from tests.unit.environments.tracker import Tracker

TASKS = list(make("miniworld").tasks("seed")[:5])


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry.REGISTERED, "tracker", Tracker)
    write_jsonl(tmp_path / "accepted.jsonl", TASKS)
    return tmp_path


def run(*words: str) -> None:
    assert export.run(parser(["export"]).parse_args(["export", *words, "--out", "out"])) == 0


def test_export_writes_the_references_of_a_file_and_a_card(outside: Path) -> None:
    run("sft", "--tasks", "accepted.jsonl", "--environment", "miniworld")
    rows = [json.loads(line) for line in (outside / "out/train.jsonl").read_text().splitlines()]
    assert [row["task_id"] for row in rows] == [task.task_id for task in TASKS]
    for row, task in zip(rows, TASKS, strict=True):
        calls = [call["function"] for message in row["messages"] for call in message.get("tool_calls", ())]
        assert calls == [{"name": call.name, "arguments": call.arguments} for call in task.calls]
    assert "5 episodes in miniworld" in (outside / "out/README.md").read_text()


@pytest.mark.parametrize(("words", "t"), [([], 1), (["--iteration", "2"], 2)])
def test_champion_is_exported_unless_another_policy_is_named(
    words: list[str], t: int, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        write_jsonl(Paths.tasks(number), TASKS[: number + 1])
        write_json(Paths.policy(number) / "config.json", {"number": number})
    reason = "policies/1 stays, as policies/2 has no certain gain"
    champion = Champion("validation", 1, [Challenge(2, 1, 0.0, -0.1, 0.1, 0, False, reason)])
    panels = {"validation": PanelMetrics(8, 0.5, 0.4, 0.6, 0.5, 2.0, 50.0, {"done": 8})}
    write_json(SUMMARY, asdict(Summary(run_hash(2), "miniworld", 0, 0.95, champion, {}, policies=[panels] * 3)))
    shutil.copy(ROOT / "params.yaml", outside)
    run("policy", *words)
    assert json.loads((outside / "out/config.json").read_text()) == {"number": t}
    assert f"# Policy {t} of a coevolve run" in (outside / "out/README.md").read_text()
    assert capsys.readouterr().out == f"out: policies/{t} and README.md\nChampion on validation: policies/1. {reason}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sft", "--tasks", "accepted.jsonl"], "params.yaml: no such file"),
        (["sft", "--tasks", "accepted.jsonl", "--environment", "tracker"], "belongs to environment 'miniworld'"),
        (["sft", "--tasks", "none.jsonl", "--environment", "tracker"], "none.jsonl: no such file"),
        (["tasks", "--tasks", "accepted.jsonl"], "--tasks: works only with sft"),
        (["sft", "--environment", "tracker"], "--environment: works only with --tasks"),
        (["sft", "--tasks", "accepted.jsonl", "--successes"], "remove --successes"),
    ],
)
def test_mistake_is_a_one_line_error_and_writes_nothing(words: list[str], message: str, outside: Path) -> None:
    with pytest.raises(CoevolveError) as caught:
        run(*words)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (outside / "out").exists()
