"""Tasks become MLflow evaluation datasets: once per content, linked to failures, and never a reason to stop."""

from pathlib import Path
from typing import Any

import pytest

from coevolve.core.io import write_jsonl
from coevolve.core.task import Provenance
from coevolve.tracking.journal import start
from tests.integration.tracking.test_tracking import CONFIG, TRAJECTORY, client, journals, runs, task

FIRST, SECOND = task("pay three"), task("pay it's bill", Provenance(2, ["s"], "e"))


def datasets(root: Path) -> dict[str, Any]:
    return {one.name: one for one in client(f"sqlite:///{root}/mlruns/mlflow.db").search_datasets()}


def log(path: Path, sources: dict[str, str], **trajectory: object) -> None:
    with start(CONFIG, "evaluate/1") as run:
        run.trace({**TRAJECTORY, **trajectory}, panel="validation")
        run.records(path, sources)


def test_records_hold_inputs_expectations_tags_and_the_failed_trace(root: Path) -> None:
    write_jsonl(root / "data/panels/validation.jsonl", [FIRST, SECOND])
    log(Path("data/panels/validation.jsonl"), {FIRST.task_id: "t", SECOND.task_id: "never logged"})
    ((name, dataset),) = datasets(root).items()
    assert name.startswith("data/panels/validation ") and dataset.tags["dvc.hash"].startswith(name.split()[1])
    assert dataset.tags["dvc.path"] == "data/panels/validation.jsonl"
    records = {record.inputs["task_id"]: record for record in dataset.records}
    failed, other = records[FIRST.task_id], records[SECOND.task_id]
    assert failed.inputs["instruction"] == "pay three" and failed.expectations == {"reference": ['pay({"sum": 3})']}
    (trace,) = client(f"sqlite:///{root}/mlruns/mlflow.db").search_traces(locations=dataset.experiment_ids)
    assert (failed.source_type, failed.source.source_data) == ("TRACE", {"trace_id": trace.info.trace_id})
    assert other.source_type == "CODE" and other.tags["iteration"] == "2" and other.tags["family"] == "shop"


def test_same_content_is_logged_once_and_other_content_beside_it(root: Path) -> None:
    path = root / "panel.jsonl"
    write_jsonl(path, [FIRST])
    log(path, {FIRST.task_id: "t"})
    before = datasets(root)
    log(path, {}, score=1.0)
    assert {name: one.last_update_time for name, one in datasets(root).items()} == {
        name: one.last_update_time for name, one in before.items()
    }
    write_jsonl(path, [FIRST, SECOND])
    log(path, {})
    sizes = [len(one.records) for one in datasets(root).values()]
    assert sorted(sizes) == [1, 2]


def test_two_policies_at_one_task_have_equal_inputs_and_a_judgement_each(root: Path) -> None:
    """MLflow's view that compares two runs pairs traces by their inputs, and shows judgements of these runs."""
    for t in range(2):
        with start(CONFIG, f"evaluate/{t}") as run:
            run.trace({**TRAJECTORY, "trajectory_id": f"t{t}", "iteration": t, "score": float(t)}, panel="validation")
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    shown = []
    for t in range(2):
        (run_of,) = runs(uri, f"evaluate/{t}")
        (trace,) = client(uri).search_traces(
            locations=[run_of.info.experiment_id], filter_string=f"attributes.run_id = '{run_of.info.run_id}'"
        )
        (judgement,) = trace.info.assessments
        assert judgement.metadata["mlflow.assessment.sourceRunId"] == run_of.info.run_id
        assert trace.info.tags["panel"] == "validation" and trace.info.tags["policy"] == f"policies/{t}"
        shown.append((trace.data.spans[0].inputs, judgement.name, judgement.value))
    assert shown[0][0] == shown[1][0]
    assert [rest for _, *rest in shown] == [["success", False], ["success", True]]


def test_file_store_gets_everything_except_datasets(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(root / "files"))
    write_jsonl(root / "panel.jsonl", [FIRST])
    with start(CONFIG, "evaluate/0") as run:
        run.records(root / "panel.jsonl", {})
        run.records(root / "panel.jsonl", {})
        run.metrics({"success": 1.0})
    (found,) = runs(str(root / "files"), "evaluate/0")
    assert found.info.status == "FINISHED" and found.data.metrics["success"] == 1.0 and journals(root) == []
    assert capsys.readouterr().out.count("takes no evaluation datasets") == 1


def test_file_changed_before_its_records_are_sent_is_left_out(root: Path) -> None:
    """The tracker may be down for days. By then the file may hold the tasks of another dataset."""
    path = root / "panel.jsonl"
    write_jsonl(path, [FIRST])
    with start(CONFIG, "evaluate/0") as run:
        pass
    assert not datasets(root)
    run.write("records", path="panel.jsonl", place=str(path), digest="0" * 32, sources={})
    run.finish()
    assert not datasets(root) and journals(root) == []
