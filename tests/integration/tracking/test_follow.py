"""Trackers follow files: a store gets what it lacks, once, whatever it has missed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.paths import Paths
from coevolve.core.stage_seconds import note_step
from coevolve.tracking.follow import follow, following
from coevolve.tracking.mlflow_sink import CHAMPION, Mlflow, view
from coevolve.tracking.record import POLICY, Details, Trace, TrackedRun
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
    write_run,
)
from tests.servers import serve, stop
from tests.waiting import free_port

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
        note_step("train/0", 0, {"success": 0.0, "tokens_per_second": 7.0})
        (live,) = runs(address(root), "train/0")
        assert live.info.status == "RUNNING" and live.data.metrics["success"] == 0.0
        train()
    (run,) = runs(address(root), "train/0")
    assert run.info.run_id == live.info.run_id and run.info.status == "FINISHED"
    history = client(address(root)).get_metric_history(run.info.run_id, "success")
    assert [(point.step, point.value) for point in history] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert run.data.metrics["tokens_per_second"] == 7.0


@pytest.mark.parametrize(("error", "status"), [(ValueError, "FAILED"), (KeyboardInterrupt, "KILLED")])
def test_failed_training_is_marked_and_continued(error: type[BaseException], status: str, root: Path) -> None:
    shutil.copy(Path(__file__).parents[3] / "dvc.yaml", root)
    with pytest.raises(error), following(PARAMS, "train/0"):
        note_step("train/0", 0, {"success": 0.0})
        raise error
    assert [run.info.status for run in runs(address(root), "train/0")] == [status]
    write_run()
    with following(PARAMS, "train/0"):
        note_step("train/0", 1, {"success": 0.5})
    (run,) = runs(address(root), "train/0")
    assert run.info.status == "FINISHED"


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
            note_step("train/0", 0, {"success": 0.0})
            stop(server)
            for step in range(1, 3):
                note_step("train/0", step, {"success": step / 2})
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("mlflow does not answer (") and line.endswith(
            "`coevolve track` sends what it lacks when it answers"
        )
        server = serve(root, port)
        assert followed() == 4
        (run,) = runs(uri, "train/0")
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
    assert capsys.readouterr().out.count("takes no evaluation datasets") == 1


STRANGE = ["", "a/../b", "a' OR 1=1", "a\0b", "\ud800", "\x1b]0;x\x07", "a\nb", "x" * 20_000]


def test_strange_texts_hold_back_no_other_part(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = root / f"{'x' * 200}/{'y' * 200}/{'z' * 200}.jsonl"
    data.parent.mkdir(parents=True)
    data.write_text("{}\n")
    traces = [Trace(episode(f"s{n}", TASKS[0], 0.0, text)) for n, text in enumerate(STRANGE)]
    figures = {text: float(n) for n, text in enumerate(STRANGE)} | {"nan": float("nan")}
    for key in ("audit/it's", "audit/x"):
        params = {text: text for text in STRANGE}
        record = TrackedRun(key, "f" * 32, params, [(0, figures)], lambda: Details(traces=traces), [(data, "x")])
        assert Mlflow("test").log(record) and not Mlflow("test").log(record)
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
    assert run.info.run_name == "train/00 brave-name"


def test_unknown_failure_of_a_tracker_is_one_line(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run()
    monkeypatch.setattr(Mlflow, "_create", lambda *arguments: 1 / 0)
    assert follow(PARAMS)[0] == 0
    (line,) = follow(PARAMS)[1]
    assert line.startswith("mlflow refuses: division by zero")
