"""MLflow mirrors the run. If MLflow is down, nothing stops, and it receives the missed events later."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.hashing import policy_hash
from coevolve.core.io import write_jsonl
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.tracking.champion import ChampionGate, ChampionRule
from coevolve.tracking.config import Tracking
from coevolve.tracking.journal import FAILURE, POLICY, start
from coevolve.tracking.mlflow_sink import CHAMPION, view
from tests.servers import serve, stop
from tests.waiting import free_port

CONFIG = Tracking(experiment="test", wandb="disabled")


def client(uri: str) -> Any:
    import mlflow
    from mlflow.tracking import MlflowClient

    mlflow.set_tracking_uri(uri)
    return MlflowClient(uri)


def runs(uri: str, key: str) -> list[Any]:
    one = client(uri)
    experiment = one.get_experiment_by_name("test")
    return list(one.search_runs([experiment.experiment_id], f"tags.`coevolve.key` = '{key}'"))


TRAJECTORY = {
    "trajectory_id": "t", "task_id": "k", "iteration": 0, "step": 1, "group": 2, "score": 0.0,
    "stop_reason": "done", "checks": {},
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "x"}],
}  # fmt: skip


def task(words: str, origin: Provenance | None = None) -> Task:
    reference = [[ToolCall("pay", {"sum": 3})]]
    return Task.create("miniworld", "validation", [words], {}, reference, ["shop"], origin)


TASK = task("pay three")


def journals(root: Path) -> list[Path]:
    return list((root / "scratch/tracking").glob("*"))


def test_runs_datasets_models_children_and_the_champion_are_logged(root: Path) -> None:
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    data, policy = root / "tasks.jsonl", root / "policies/1"
    data.write_text("{}\n")
    policy.mkdir(parents=True)
    (policy / "model.safetensors").write_bytes(b"weights")
    with start(CONFIG, "train/0") as run:
        run.params({"seed": 0, **{f"train.key {n}": n for n in range(150)}})  # more than MLflow takes at once
        run.metrics({"what, <agents'> fail/1": 1.0})  # a figure's name is text for people
        run.dataset(data, "training")
        for step in range(3):
            run.metrics({"success": step / 2}, step)

    with start(CONFIG, "evaluate/1") as run:
        run.model(1, policy, {"validation": 0.5})
    with start(CONFIG, "pairs/0") as run:
        run.model(1, policy, {"closeness": 0.25}, FAILURE)
    with start(CONFIG, "pipeline") as run:
        run.child("train/0")
        run.artifact(data)
        run.challenge(gate(policy, 4))
    (train,) = runs(uri, "train/0")
    (pipeline,) = runs(uri, "pipeline")
    assert train.info.status == "FINISHED"
    assert train.data.params == {"seed": "0", **{f"train.key_{n}": str(n) for n in range(150)}}
    history = client(uri).get_metric_history(train.info.run_id, "success")
    assert [(point.step, point.value) for point in history] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert [one.dataset.name for one in train.inputs.dataset_inputs] == [str(data)]
    assert train.data.tags["mlflow.parentRunId"] == pipeline.info.run_id
    version = client(uri).get_model_version_by_alias(POLICY, CHAMPION)
    assert version.tags["dvc.path"] == str(policy)
    assert train.data.metrics["what_agents_fail/1"] == 1.0
    other = client(uri).get_model_version(FAILURE, "1")
    assert other.tags["coevolve.closeness"] == "0.25"
    assert other.tags["dvc.path"] == str(policy) and "closeness 0.25" in other.description
    assert [one.path for one in client(uri).list_artifacts(pipeline.info.run_id)] == ["tasks.jsonl"]
    assert journals(root) == []


STRANGE = [
    "",
    "a/../b",
    "a' OR 1=1",
    "a\0b",
    "\ud800",
    "\x1b]0;x\x07",
    "a\nb",
    "x" * 20_000,
]
DEEP: list[Any] = []
for _ in range(500):
    DEEP = [DEEP]


def test_strange_texts_hold_back_no_later_event(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each event reaches MLflow or is left out. No event waits in the journal for a tracker that never accepts it."""
    data = root / "tasks.jsonl"
    data.write_text("{}\n")
    for key in ("audit/it's", "audit/x"):
        with start(CONFIG, key) as run:
            for text in STRANGE:
                run.params({text: text})
                run.metrics({text: 1.0, "m": float("nan")})
                run.child(text)
                told = {"role": text, "content": text}
                run.trace({**TRAJECTORY, "task_id": text, "messages": [told, told], "checks": {text: True}})
            run.trace({**TRAJECTORY, "checks": {"deep": DEEP}})
            run.dataset(data, "x" * 1000)
            run.metrics({"last": 1.0})
        assert journals(root) == []
    (found,) = runs(f"sqlite:///{root}/mlruns/mlflow.db", "audit/it_s")
    assert found.info.status == "FINISHED" and found.data.metrics["last"] == 1.0
    assert found.data.params["a/b"] == "a/../b" and len(found.data.params["x" * 250]) == 6000
    shown = capsys.readouterr().out
    assert "does not answer" not in shown and "mlflow rejects a dataset (" in shown
    assert "the trackers do not get a trace: it is nested deeper than 64 levels" in shown


def test_trace_has_the_state_of_its_episode_and_tags_to_filter_by(root: Path) -> None:
    with start(CONFIG, "pipeline") as run:
        run.trace(TRAJECTORY, ["boundary", "rare"])
        run.trace({**TRAJECTORY, "score": 1.0})
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    (pipeline,) = runs(uri, "pipeline")

    def traces(words: str) -> list[Any]:
        return list(client(uri).search_traces(locations=[pipeline.info.experiment_id], filter_string=words))

    (failed,) = traces("tags.signal LIKE '%rare%'")
    assert failed.info.state == "ERROR"
    assert [span.name for span in failed.data.spans][1:] == ["assistant"]
    expected = {"task_id": "k", "iteration": "0", "policy": "policies/0", "score": "0.0", "signal": "boundary, rare"}
    assert expected.items() <= failed.info.tags.items()
    (solved,) = traces("trace.status = 'OK'")
    assert solved.info.tags["score"] == "1.0" and "signal" not in solved.info.tags


@pytest.mark.parametrize(
    "image", ["![x](http://h/{}.png)", "![x][r]\n\n[r]: http://h/{}.png", r"\![x](http://h/{}.png)"]
)
def test_words_in_a_trace_load_no_image(image: str, root: Path) -> None:
    """MLflow's page of a trace shows words as Markdown. An image would tell a server of the agent's choice who reads them."""
    told = [{"role": role, "content": image.format(role)} for role in ("user", "assistant", "tool")]
    with start(CONFIG, "pipeline") as run:
        run.trace({**TRAJECTORY, "task_id": image, "messages": told, "checks": {image: True}})
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    (pipeline,) = runs(uri, "pipeline")
    (trace,) = client(uri).search_traces(locations=[pipeline.info.experiment_id])
    shown = [trace.info.tags["task_id"], *(json.dumps([span.inputs, span.outputs]) for span in trace.data.spans)]
    assert all(r"!\[x]" in text.replace(r"\\", "\\") and "![" not in text for text in shown)


def test_policy_evaluated_again_keeps_its_version(root: Path) -> None:
    challenge(root, 1, 50, measured=False)
    evaluated(root, 1, 30)
    (only,) = client(f"sqlite:///{root}/mlruns/mlflow.db").search_model_versions(f"name = '{POLICY}'")
    assert only.tags["coevolve.validation"] == "0.4688" and "validation 0.47" in only.description
    assert only.tags["coevolve.promotion"] == "the first"
    worse = challenge(root, 2, 20).tags["coevolve.promotion"]  # than the second evaluation: the first measured nothing
    assert worse.startswith("version 1 stays, as version 2") and "of 30 solved tasks lost" in worse
    assert challenge(root, 1, 30).tags["coevolve.promotion"] == "the first"


def gate(policy: Path, solved: int) -> dict[str, Any]:
    scores = {f"{n:016x}": float(n < solved) for n in range(64)}
    rule = ChampionRule("validation", 0.25, bootstrap=200, confidence=0.95, seed=0)
    return asdict(ChampionGate(policy_hash(policy), scores, rule))


def evaluated(root: Path, t: int, solved: int, measured: bool = True) -> Path:
    """Policy ``t`` after an evaluation in which it solved ``solved`` of 64 tasks."""
    from coevolve.core.outcomes import Outcome

    policy = root / f"policies/{t}"
    policy.mkdir(parents=True, exist_ok=True)
    (policy / "model.safetensors").write_bytes(b"%d" % t)
    found = [
        Outcome("validation", f"{n:016x}", "f", float(n < solved), n < solved, "done", 1, 1, {}) for n in range(64)
    ]
    write_jsonl(root / "outcomes.jsonl", found)
    with start(CONFIG, f"evaluate/{t}") as run:
        if measured:
            run.artifact(root / "outcomes.jsonl")
        run.model(t, policy, {"validation": solved / 64})
    return policy


def challenge(
    root: Path, t: int, solved: int, measured: bool = True, before: Callable[[], object] = lambda: None
) -> Any:
    """Version ``t``, of a policy that solves so many of 64 tasks, after it has challenged for the alias."""
    policy = evaluated(root, t, solved, measured)
    before()
    with start(CONFIG, "pipeline") as run:
        run.challenge(gate(policy, solved))
    return version(root, t)


def version(root: Path, t: int) -> Any:
    return client(f"sqlite:///{root}/mlruns/mlflow.db").get_model_version(POLICY, str(t))


def holder(root: Path) -> str:
    one = client(f"sqlite:///{root}/mlruns/mlflow.db").get_model_version_by_alias(POLICY, CHAMPION)
    return str(one.version)


def test_alias_moves_by_the_gate_and_the_version_states_the_reason(root: Path) -> None:
    assert challenge(root, 1, 30).tags["coevolve.promotion"] == "the first"
    better = challenge(root, 2, 50).tags["coevolve.promotion"]
    assert better.startswith("version 2 replaces version 1: gain +0.312")
    assert holder(root) == "2"
    worse = challenge(root, 3, 20).tags["coevolve.promotion"]
    assert worse.startswith("version 2 stays, as version 3 has no certain gain")
    assert holder(root) == "2"


def test_unreachable_registry_does_not_change_the_champion(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    def down(*arguments: object) -> None:
        raise MlflowException("API request failed: connection refused")

    challenge(root, 1, 50)
    with monkeypatch.context() as patch:
        calls = ("get_model_version_by_alias", "get_registered_model")
        challenge(root, 2, 30, before=lambda: [patch.setattr(MlflowClient, name, down) for name in calls])
    assert holder(root) == "1"
    with start(CONFIG, "train/9"):  # the journal that was left is finished first
        pass
    assert version(root, 2).tags["coevolve.promotion"].startswith("version 1 stays, as version 2")
    assert holder(root) == "1" and journals(root) == []


def test_view_sets_columns_of_the_runs_table(root: Path) -> None:
    (root / "mlruns/mlflow.db").unlink()
    assert view("test") is None
    with start(CONFIG, "train/0"):
        pass
    assert view("other") is None
    found = view("test")
    assert found is not None
    uri, path = found
    experiment = client(uri).get_experiment_by_name("test")
    page = f"#/experiments/{experiment.experiment_id}/runs"
    assert path == f"{page}?viewStateShareKey=coevolve&workflowType=machine_learning"
    columns = json.loads(experiment.tags["mlflow.sharedViewState.coevolve"])["selectedColumns"]
    assert "metrics.`validation/success`" in columns


def test_runs_name_the_commit_and_the_experiment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123abc")
    monkeypatch.setenv("DVC_EXP_NAME", "brave-name")
    with start(CONFIG, "train/0"):
        pass
    (run,) = runs(f"sqlite:///{root}/mlruns/mlflow.db", "train/0")
    assert (run.data.tags["git.commit"], run.data.tags["coevolve.experiment"]) == ("0123abc", "brave-name")


def test_failed_and_interrupted_runs_are_marked(root: Path) -> None:
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    with pytest.raises(ValueError, match="x"), start(CONFIG, "train/0"):
        raise ValueError("x")
    with pytest.raises(KeyboardInterrupt), start(CONFIG, "train/1"):
        raise KeyboardInterrupt
    assert runs(uri, "train/0")[0].info.status == "FAILED"
    assert runs(uri, "train/1")[0].info.status == "KILLED"


def test_killed_run_is_ended_by_the_next_run_of_its_key(root: Path) -> None:
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    code = (
        "import os, signal\nfrom coevolve.tracking.config import Tracking\nfrom coevolve.tracking.journal import start\n"
        "with start(Tracking(experiment='test', wandb='disabled'), 'train/0') as run:\n"
        "    run.metrics({'success': 0.5}, 7)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "DVC_ROOT": str(root)})
    assert runs(uri, "train/0")[0].info.status == "RUNNING"
    with start(CONFIG, "train/0"):
        pass
    assert sorted(run.info.status for run in runs(uri, "train/0")) == ["FINISHED", "KILLED"]
    assert journals(root) == []


def test_server_that_comes_back_has_missed_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    write_jsonl(root / "panel.jsonl", [TASK])
    server = serve(root, port)
    try:
        with start(CONFIG, "train/0") as run:
            run.metrics({"success": 0.0}, 0)
            stop(server)
            run.trace(TRAJECTORY)
            run.records(root / "panel.jsonl", {TASK.task_id: "t"})
            for step in range(1, 4):
                run.metrics({"success": float(step)}, step)
        assert journals(root)
        server = serve(root, port)
        with start(CONFIG, "evaluate/1"):
            pass
        (train,) = runs(uri, "train/0")
        assert train.info.status == "FINISHED"
        history = client(uri).get_metric_history(train.info.run_id, "success")
        assert [(point.step, point.value) for point in history] == [(n, float(n)) for n in range(4)]
        assert len(client(uri).search_traces(locations=[train.info.experiment_id])) == 1
        (dataset,) = client(uri).search_datasets()
        assert [record.source_type for record in dataset.records] == ["TRACE"]
        assert journals(root) == []
    finally:
        stop(server)
