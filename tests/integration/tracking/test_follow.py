"""Trackers follow files: a store gets what it lacks, once, whatever it has missed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mlflow.models import get_model_info
from mlflow.tracking import MlflowClient
from sqlalchemy import Connection, Engine, event

from coevolve.core.io import write_json, write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.programs import git
from coevolve.core.stage_seconds import note_seconds, tell_step
from coevolve.stages.report.run_summary import SUMMARY
from coevolve.tracking.follow import follow, following
from coevolve.tracking.mlflow_sink import CHAMPION, Mlflow, view
from coevolve.tracking.record import POLICY, TrackedRun
from tests import ROOT
from tests.integration.tracking.example import (
    GROWN,
    PARAMS,
    TASKS,
    client,
    episode,
    evaluate,
    followed,
    report,
    runs,
    train,
    write_lock,
    write_run,
)
from tests.servers import serve, stop
from tests.waiting import free_port, until

KEYS = ("evaluate/0", "train/0", "evaluate/1", "pipeline")


def address(root: Path) -> str:
    return f"sqlite:///{root}/mlruns/mlflow.db"


def content(uri: str) -> dict[str, Any]:
    """What a store holds, without its own names and times."""
    found: dict[str, Any] = {}
    for key in KEYS:
        (run,) = runs(uri, key)
        points = {
            name: [(one.step, one.value) for one in client(uri).get_metric_history(run.info.run_id, name)]
            for name in run.data.metrics
        }
        own = {name: text for name, text in run.data.tags.items() if name.startswith(("coevolve", "git"))}
        parent = run.data.tags.get("mlflow.parentRunId")
        own["parent"] = client(uri).get_run(parent).data.tags["coevolve.key"] if parent else None
        files = sorted(one.path for one in client(uri).list_artifacts(run.info.run_id))
        inputs = [(one.dataset.name, one.dataset.digest) for one in run.inputs.dataset_inputs]
        found[key] = (run.info.run_name, run.info.status, run.data.params, points, own, files, inputs)
    place = [run.info.experiment_id]
    traces = client(uri).search_traces(locations=place)
    names = {one.info.trace_id: one.info.tags.get("trajectory_id") for one in traces}
    found["traces"] = sorted(
        (
            str(names[one.info.trace_id]),
            one.info.state,
            [(span.name, span.inputs, span.outputs) for span in one.data.spans],
            [(judgement.name, judgement.value) for judgement in one.info.assessments],
            sorted((tag, text) for tag, text in one.info.tags.items() if not tag.startswith("mlflow")),
        )
        for one in traces
    )
    found["datasets"] = {
        one.name: sorted(
            (str(record.inputs), str(record.expectations), names.get((record.source.source_data or {}).get("trace_id")))
            for record in one.records
        )
        for one in client(uri).search_datasets()
    }
    found["models"] = sorted(
        (one.name, one.status, one.tags["dvc.hash"]) for one in client(uri).search_logged_models(place)
    )
    versions = client(uri).search_model_versions(f"name = '{POLICY}'")
    found["versions"] = sorted((one.version, one.description, sorted(one.tags.items())) for one in versions)
    found["champion"] = client(uri).get_model_version_by_alias(POLICY, CHAMPION).version
    return found


def test_a_new_store_gets_the_same_runs_versions_and_champion(
    root: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run()
    assert followed() == 4
    before = content(address(root))
    assert before["champion"] == 2 and before["train/0"][3]["success"] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert before["train/0"][6][0][0] == "data/0/tasks.jsonl"
    assert before["evaluate/1"][3]["validation/success"] == [(1, 50 / 64)]
    assert before["train/0"][2]["train.steps"] == "3" and before["pipeline"][2]["report.steps"] == "3"
    assert {key: before[key][4]["parent"] for key in KEYS} == {**dict.fromkeys(KEYS, "pipeline"), "pipeline": None}
    assert followed() == 0 and content(address(root)) == before
    shutil.copy(tables, root / "new.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///new.db")
    assert followed() == 4
    assert content(f"sqlite:///{root}/new.db") == before


WRITE = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")


@contextmanager
def dying(at: int) -> Iterator[list[str]]:
    """The tables of each writing transaction of the stores that this process opens. All fail from transaction ``at`` on."""
    tables: dict[Connection, list[str]] = {}
    done: list[str] = []

    def note(connection: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        if found := WRITE.match(statement):
            tables.setdefault(connection, []).append(found[1])

    def die(connection: Connection) -> None:
        if written := tables.pop(connection, None):
            if len(done) >= at:
                raise ConnectionError("the store has died")
            done.append(" ".join(written))

    event.listen(Engine, "before_cursor_execute", note)
    event.listen(Engine, "commit", die)
    try:
        yield done
    finally:
        event.remove(Engine, "before_cursor_execute", note)
        event.remove(Engine, "commit", die)


def test_store_that_dies_in_the_middle_of_any_part_gets_the_rest_once(
    root: Path, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run()
    with dying(10_000) as transactions:
        assert followed() == 4
    whole = content(address(root))
    assert len(whole["traces"]) == 4 and len(transactions) > 50
    # a death at the first transaction of each kind. All numbers take minutes
    kinds = {kind: number for number, kind in reversed(list(enumerate(transactions)))}
    for number in range(len(transactions)) if "ALL_DEATHS" in os.environ else sorted(kinds.values()):
        shutil.copy(tables, root / f"{number}.db")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{number}.db")
        with dying(number):
            assert follow(PARAMS)[1], "a line says so"
        followed()
        assert content(f"sqlite:///{root}/{number}.db") == whole, (number, transactions[number])


def test_stages_runs_are_children_of_the_pipeline(root: Path) -> None:
    write_run()
    followed()
    (pipeline,) = runs(address(root), "pipeline")
    for key in KEYS[:-1]:
        (run,) = runs(address(root), key)
        assert run.data.tags["mlflow.parentRunId"] == pipeline.info.run_id
    assert pipeline.data.tags["coevolve.run"] == "abc"
    assert len(pipeline.data.params["train.text"]) == 6000, "MLflow's limit"
    whole = client(address(root)).download_artifacts(pipeline.info.run_id, "params.json")
    assert "x" * 7000 in Path(whole).read_text()


def test_version_tells_panel_tasks_interval_and_how_to_fetch_it(root: Path) -> None:
    write_run()
    followed()
    one = client(address(root)).get_model_version_by_alias(POLICY, CHAMPION)
    assert one.description.startswith("policies/1 at iteration 1: validation 0.78 (0.")
    assert ", 64 tasks)" in one.description and "coevolve export policy --iteration 1" in one.description
    assert (
        one.tags["coevolve.promotion"].startswith("version 2 replaces") or one.tags["coevolve.promotion"] == "the first"
    )


def test_evaluation_on_fewer_tasks_does_not_overwrite_another(root: Path) -> None:
    write_run()
    followed()
    evaluate(1, 1, tasks=8)
    assert followed() == 1
    one = client(address(root)).get_model_version_by_alias(POLICY, CHAMPION)
    assert one.tags["coevolve.validation"] == "0.7812" and "64 tasks" in one.description
    assert len(runs(address(root), "evaluate/1")) == 2
    evaluate(1, 30)
    assert followed() == 1
    again = client(address(root)).get_model_version(POLICY, one.version)
    assert again.tags["coevolve.validation"] == "0.4688" and "validation 0.47" in again.description


def test_applied_experiment_has_its_name_and_times(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dvc exp apply` puts the files of an experiment here, in which perhaps no stage ran, and a reference to it."""
    git("init", "-q", ".")
    with monkeypatch.context() as patch:
        patch.setenv("DVC_EXP_NAME", "brave-name")
        write_run()
        note_seconds("evaluate/1", 8.0)
    write_lock()
    git("add", "dvc.lock")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "experiment")
    for ref in ("refs/exps/01/23456789/brave-name", "refs/exps/exec/EXEC_APPLY"):
        git("update-ref", ref, "HEAD")
    note_seconds("evaluate/1", 25.0)
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    followed()
    (pipeline,) = runs(address(root), "pipeline")
    assert pipeline.info.run_name == "pipeline brave-name" and pipeline.data.metrics["seconds/evaluate"] == 8.0
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    evaluate(1, 32)
    write_lock()
    followed()
    (again,) = [run for run in runs(address(root), "evaluate/1") if run.data.metrics["solved"] == 32]
    assert again.data.tags["coevolve.experiment"] == "workspace"


def test_worse_policy_does_not_take_the_alias(root: Path) -> None:
    write_run({0: 50, 1: 20})
    followed()
    assert client(address(root)).get_model_version_by_alias(POLICY, CHAMPION).tags["dvc.path"] == "policies/0"
    (Paths.policy(0) / "model.safetensors").write_bytes(b"other")
    evaluate(1, 22)
    report()
    followed()
    assert client(address(root)).get_model_version_by_alias(POLICY, CHAMPION).tags["dvc.path"] == "policies/0"


def test_live_curve_becomes_the_run_of_the_files(root: Path) -> None:
    write_run()
    (root / "data/0/summary/train.json").unlink()
    with following(PARAMS, "train/0"):
        tell_step(0, {"success": 0.0})
        (live,) = runs(address(root), "train/0")
        assert live.info.status == "RUNNING" and live.data.metrics["success"] == 0.0
        train()
    (run,) = runs(address(root), "train/0")
    assert run.info.run_id == live.info.run_id and run.info.status == "FINISHED"
    history = client(address(root)).get_metric_history(run.info.run_id, "success")
    assert [(point.step, point.value) for point in history] == [(0, 0.0), (1, 0.5), (2, 1.0)]


@pytest.mark.parametrize(("error", "status"), [(ValueError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_failed_training_is_marked(error: type[BaseException], status: str, root: Path) -> None:
    shutil.copy(Path(__file__).parents[3] / "dvc.yaml", root)
    with pytest.raises(error), following(PARAMS, "train/0"):
        tell_step(0, {"success": 0.0})
        raise error
    assert [run.info.status for run in runs(address(root), "train/0")] == [status]
    write_run()
    followed()
    assert sorted(run.info.status for run in runs(address(root), "train/0")) == sorted([status, "FINISHED"])


def test_system_metrics_of_a_training_are_logged_if_mlflow_is_asked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "true")
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")

    def measured() -> bool:
        (run,) = runs(address(root), "train/0")
        return "system/cpu_utilization_percentage" in run.data.metrics

    with following(PARAMS, "train/0"):
        tell_step(0, {"success": 0.0})
        until(measured, "there is no system metric")
        write_run()
    (run,) = runs(address(root), "train/0")
    assert run.info.status == "FINISHED"
    assert not [thread.name for thread in threading.enumerate() if "SystemMetrics" in thread.name]


def test_version_has_the_signature_of_a_model_that_answers_messages(root: Path) -> None:
    write_run()
    followed()
    signature = get_model_info(f"models:/{POLICY}@{CHAMPION}").signature
    assert signature is not None and signature.inputs.input_names()[0] == "messages"


def test_run_of_a_killed_stage_ends_when_the_stage_has_its_files(root: Path) -> None:
    code = (
        "import os, signal\nfrom coevolve.core.stage_seconds import note_seconds, tell_step\n"
        "from coevolve.tracking.follow import following\nfrom tests.integration.tracking.example import PARAMS\n"
        "with following(PARAMS, 'train/0'):\n"
        "    tell_step(0, {'success': 0.0})\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"})
    assert ended.returncode == -signal.SIGKILL
    (live,) = runs(address(root), "train/0")
    assert live.info.status == "RUNNING"
    write_run()
    assert followed() == 4
    found = {run.info.status: run for run in runs(address(root), "train/0")}
    assert found.keys() == {"KILLED", "FINISHED"} and found["KILLED"].info.run_id == live.info.run_id
    history = client(address(root)).get_metric_history(found["FINISHED"].info.run_id, "success")
    assert [one.value for one in history] == [0.0, 0.5, 1.0]


def test_unreachable_registry_does_not_change_the_champion(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*arguments: object) -> None:
        raise ConnectionError("connection refused")

    write_run({0: 50, 1: 20})
    SUMMARY.unlink()
    assert followed() == 3
    report()
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "get_registered_model", down)
        new, (line,) = follow(PARAMS)
    assert new == 0 and line.startswith("mlflow does not answer (connection refused)")
    assert not client(address(root)).get_registered_model(POLICY).aliases
    assert followed() == 1
    holder = client(address(root)).get_model_version_by_alias(POLICY, CHAMPION)
    assert holder.tags["dvc.path"] == "policies/0" and holder.tags["coevolve.promotion"] == "the first"


def test_file_that_cannot_be_read_holds_back_no_other_run(root: Path) -> None:
    """An upgrade replaces the files of a later iteration when their stage runs again."""
    write_run()
    write_json(Paths.evaluation(0) / "metrics.json", {"validation": {"success": "half"}})
    new, (line,) = follow(PARAMS)
    assert new == 3 and line.startswith("mlflow does not get evaluate/0: evaluations/0/metrics.json")


def test_run_that_a_person_has_deleted_stays_deleted(root: Path) -> None:
    write_run()
    followed()
    (run,) = runs(address(root), "train/0")
    client(address(root)).delete_run(run.info.run_id)
    assert followed() == 0 and runs(address(root), "train/0") == []


def test_experiment_whose_stages_were_all_skipped_has_a_run_of_the_pipeline(root: Path) -> None:
    """DVC takes its results from a run with other parameters, and no stage of it runs."""
    write_run()
    followed()
    write_json(Paths.code("evaluate"), {"code": {}, "params": {"evaluate": {"steps": 4}}})
    assert followed() == 1 and followed() == 0
    found = {run.data.params["evaluate.steps"]: run for run in runs(address(root), "pipeline")}
    assert found.keys() == {"3", "4"} and found["4"].data.metrics == found["3"].data.metrics


def test_results_that_the_next_stages_replace_are_left_out(root: Path) -> None:
    """Stage code has noted new parameters, and files of the earlier ones are there until their stage runs."""
    write_run()
    write_lock()
    assert followed() == 4
    write_json(Paths.code("train"), {"code": {}, "params": {"train": {"steps": 9}}})
    with following(PARAMS, "evaluate/0"):
        evaluate(0, 21)
    assert [len(runs(address(root), key)) for key in KEYS] == [2, 1, 1, 1]
    with following(PARAMS, "train/0"):
        write_jsonl(Paths.data(0) / "train_metrics.jsonl", [{"step": 0, "success": 0.75}])
    assert {run.data.params["train.steps"] for run in runs(address(root), "train/0")} == {"3", "9"}
    assert len(runs(address(root), "pipeline")) == 1
    write_lock()
    assert followed() == 1, "the pipeline's"


def test_server_that_comes_back_has_missed_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    server = serve(root, port)
    try:
        with following(PARAMS.model_copy(), "train/0"):
            write_run()
            tell_step(0, {"success": 0.0})
            stop(server)
            for step in range(1, 3):
                tell_step(step, {"success": step / 2})
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 1, lines
        (line,) = lines
        assert line.startswith("mlflow does not answer (") and line.endswith(
            "`coevolve track` sends what it lacks when it answers"
        )
        server = serve(root, port)
        assert followed() == 4
        found = {run.info.status: run for run in runs(uri, "train/0")}
        assert found.keys() == {"KILLED", "FINISHED"}, "the live run was lost with the server"
        run = found["FINISHED"]
        history = client(uri).get_metric_history(run.info.run_id, "success")
        assert run.info.status == "FINISHED" and [one.value for one in history] == [0.0, 0.5, 1.0]
        assert len(client(uri).search_traces(locations=[run.info.experiment_id])) == 4
    finally:
        stop(server)


def test_traces_and_records_lead_to_failures(root: Path) -> None:
    write_run()
    followed()
    uri = address(root)
    (pipeline,) = runs(uri, "pipeline")
    place = [pipeline.info.experiment_id]
    (weak, *_) = client(uri).search_traces(locations=place, filter_string="tags.trajectory_id = 't0'")
    assert weak.info.state == "ERROR" and [span.name for span in weak.data.spans][1:] == ["assistant"]
    for t, success in ((0, False), (1, True)):
        (run,) = runs(uri, f"evaluate/{t}")
        (trace,) = client(uri).search_traces(locations=place, filter_string=f"attributes.run_id = '{run.info.run_id}'")
        (judgement,) = trace.info.assessments
        assert (judgement.name, judgement.value) == ("success", success)
        assert trace.info.tags["panel"] == "validation" and trace.info.tags["policy"] == f"policies/{t}"
    datasets = {one.name.split()[0]: one for one in client(uri).search_datasets()}
    records = {one.inputs["task_id"]: one for one in datasets["data/1/tasks"].records}
    assert records[TASKS[0].task_id].source.source_data == {"trace_id": weak.info.trace_id}
    grown = records[GROWN.task_id]
    assert grown.tags["iteration"] == "0" and grown.expectations == {"reference": ['pay({"sum": 3})']}
    assert len(datasets["data/panels/validation"].records) == 64


def test_file_store_gets_everything_except_datasets(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(root / "files"))
    write_run()
    assert followed() == 4
    (found,) = runs(str(root / "files"), "evaluate/0")
    assert found.info.status == "FINISHED" and found.data.metrics["validation/success"] == 20 / 64
    assert capsys.readouterr().out.count("mlflow rejects evaluation datasets") == 1


STRANGE = ["", "a/../b", "a' OR 1=1", "a\0b", "\ud800", "\x1b]0;x\x07", "a\nb", "x" * 20_000]


def test_strange_texts_hold_back_no_other_part(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = root / f"{'x' * 200}/{'y' * 200}/{'z' * 200}.jsonl"
    data.parent.mkdir(parents=True)
    data.write_text("{}\n")
    traces = [(episode(f"s{n}", TASKS[0], 0.0, text), {"panel": text}) for n, text in enumerate(STRANGE)]
    figures = {text: float(n) for n, text in enumerate(STRANGE)} | {"nan": float("nan")}
    for key in ("audit/it's", "audit/x"):
        params = {text: text for text in STRANGE}
        run = TrackedRun([(0, figures)], params, traces=traces, datasets=[(data, "x")])
        Mlflow("test").log(key, "f" * 32, run)
        assert Mlflow("test").has(key, "f" * 32)
    (found,) = runs(address(root), "audit/it_s")
    assert found.info.status == "FINISHED"
    assert found.data.params["a/b"] == "a/../b" and len(found.data.params["x" * 250]) == 6000
    assert "mlflow rejects the dataset" in capsys.readouterr().out


def test_view_sets_columns_of_the_runs_table(root: Path) -> None:
    write_run()
    followed()
    assert view("other") is None
    found = view("test")
    assert found is not None and found[1].endswith("/runs?viewStateShareKey=coevolve&workflowType=machine_learning")
    experiment = client(found[0]).get_experiment_by_name("test")
    assert "metrics.`validation/success`" in experiment.tags["mlflow.sharedViewState.coevolve"]


def test_runs_name_the_commit_and_the_experiment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123abc")
    monkeypatch.setenv("DVC_EXP_NAME", "brave-name")
    write_run()
    followed()
    (run,) = runs(address(root), "train/0")
    assert (run.data.tags["git.commit"], run.data.tags["coevolve.experiment"]) == ("0123abc", "brave-name")
    assert run.data.tags["mlflow.source.git.commit"] == "0123abc"
    assert run.info.run_name == "train/00 brave-name"


def test_unknown_failure_of_a_tracker_is_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run()
    monkeypatch.setattr(Mlflow, "_create", lambda *arguments: 1 / 0)
    assert follow(PARAMS)[0] == 0
    (line,) = follow(PARAMS)[1]
    assert line.startswith("mlflow refuses: division by zero")
