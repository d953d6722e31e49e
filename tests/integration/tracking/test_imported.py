"""`coevolve import --mlflow`: foreign rollouts as traces, once each, and refusals in MLflow's words."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from coevolve.tracking.mlflow_store import store
from tests.cli import coevolve
from tests.integration.tracking.example import client
from tests.unit.rollouts.test_chats import CHAT
from tests.waiting import free_port

EXPERIMENT = "their rollouts"


def chats(file: Path, scores: Sequence[float]) -> Path:
    """A visit of one task per step: two attempts of the same score."""
    rows = [
        {**CHAT, "task_id": "pay", "step": step, "reward": score} for step, score in enumerate(scores) for _ in range(2)
    ]
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def imported(source: Path) -> tuple[int, str]:
    done = coevolve("import", "auto", str(source), "--out", "out.parquet", "--mlflow", EXPERIMENT)
    return done.returncode, done.stdout + done.stderr


def traces() -> list[Any]:
    import mlflow

    experiment = client(store()).get_experiment_by_name(EXPERIMENT)
    found = mlflow.search_traces(locations=[experiment.experiment_id], return_type="list", flush=False)
    return sorted(found, key=lambda trace: trace.info.tags["trajectory_id"])


def test_rollout_is_a_trace_with_its_reward_task_and_signals(root: Path) -> None:
    code, said = imported(chats(root / "runs/chats.jsonl", [1.0, 0.0]))
    assert code == 0 and f": 4 traces in experiment {EXPERIMENT}\n" in said
    found = traces()
    tags = [trace.info.tags for trace in found]
    assert [(one["task_id"], one["step"], one["score"]) for one in tags] == [("pay", str(n // 2), str(1.0 - n // 2)) for n in range(4)]  # fmt: skip
    assert {one["signal"] for one in tags} == {"forgetting"} and not {"policy", "panel"} & set(tags[0])
    assert [span.name for span in found[0].data.spans] == ["task pay", "assistant", "tool", "tool", "user", "assistant"]
    asked = found[0].data.spans[0].inputs["messages"]
    assert [message["role"] for message in asked] == ["system", "user"]
    assert [trace.info.assessments[0].feedback.value for trace in found] == [True, True, False, False]


def test_what_mlflow_has_is_not_logged_again(root: Path) -> None:
    folder = root / "runs"
    chats(folder / "b.jsonl", [1.0])
    assert imported(folder)[0] == imported(folder)[0] == 0
    before = {trace.info.trace_id for trace in traces()}
    assert len(before) == 2
    chats(folder / "a.jsonl", [0.0])
    chats(folder / "b.jsonl", [0.5])
    assert imported(folder)[0] == 0
    after = {trace.info.trace_id: float(trace.info.tags["score"]) for trace in traces()}
    assert before < set(after) and sorted(after.values()) == [0.0, 0.0, 0.5, 0.5, 1.0, 1.0]
    assert len(client(store()).search_runs([client(store()).get_experiment_by_name(EXPERIMENT).experiment_id])) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "MLflow refuses: Cannot set a deleted experiment 'their rollouts' as the active experiment."),
        ("htp://host", "MLflow refuses: "),
        ("http://127.0.0.1:{port}", "MLflow does not answer ([Errno 111] Connection refused); start the server"),
    ],
)
def test_refusal_is_one_line_in_the_words_of_mlflow(
    given: str, words: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", given.format(port=free_port()))
    else:
        one = client(store())
        one.delete_experiment(one.create_experiment(EXPERIMENT))
    code, said = imported(chats(root / "runs/chats.jsonl", [1.0]))
    assert code == 1
    assert said.splitlines()[-1].startswith(f"error: {words}")
    assert (root / "out.parquet").exists(), "the import itself is done"
