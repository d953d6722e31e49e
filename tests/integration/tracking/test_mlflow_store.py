"""One address of MLflow's store for stages, experiments in DVC's copies and commands, and refusals in MLflow's words."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from coevolve.commands import ui
from coevolve.core.errors import CoevolveError
from coevolve.core.stage_seconds import tell_step
from coevolve.tracking.follow import following
from coevolve.tracking.mlflow_sink import Mlflow, view
from coevolve.tracking.mlflow_store import opened, store
from coevolve.tracking.record import TrackedRun
from tests.integration.tracking.example import PARAMS, client, runs, write_run
from tests.waiting import free_port

Enter = Callable[[Path], Path]


@pytest.fixture
def enter(tables: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Makes a folder the project of this process. A new folder gets a store, which has tables already."""

    def entered(folder: Path) -> Path:
        if not folder.exists():
            (folder / "mlruns").mkdir(parents=True)
            shutil.copy(tables, folder / "mlruns")
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)  # MLflow has set it
        monkeypatch.setenv("DVC_ROOT", str(folder))
        monkeypatch.chdir(folder)
        return folder

    return entered


def log(folder: Path, key: str = "evaluate/0") -> None:
    """A run with one artifact."""
    file = folder / "outcomes.jsonl"
    file.write_text("{}\n")
    Mlflow("test").log(key, "f" * 32, TrackedRun([], artifacts=[file]))


def artifacts(folder: Path) -> list[Path]:
    return sorted((folder / "mlruns/artifacts").glob("*/artifacts/outcomes.jsonl"))


@pytest.mark.parametrize("name", ["C# agents", "what?", "100%41 sure", "a+b & c", "it's ü", "x[1]", "a\nb", 'a"b'])
def test_every_name_of_a_folder_keeps_runs_inside_of_it(
    name: str, enter: Enter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = enter(tmp_path / name)
    log(project)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(artifacts(project)) == 1 and capsys.readouterr().out == ""
    (run,) = runs(store(), "evaluate/0")
    assert [one.path for one in client(store()).list_artifacts(run.info.run_id)] == ["outcomes.jsonl"]


def test_moved_project_and_a_copy_write_into_their_own_folders(
    enter: Enter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = enter(tmp_path / "first")
    log(first)
    moved = tmp_path / "moved"
    first.rename(moved)
    enter(moved)
    log(moved, "evaluate/1")
    assert not first.exists() and len(artifacts(moved)) == 2
    assert capsys.readouterr().out == f"mlflow: the project has moved; its artifacts are in {moved}/mlruns/artifacts\n"
    copy = tmp_path / "copy"
    shutil.copytree(moved, copy)
    enter(copy)
    log(copy, "evaluate/2")
    assert len(artifacts(moved)) == 2 and len(artifacts(copy)) == 3
    for key in ("evaluate/0", "evaluate/1", "evaluate/2"):
        (run,) = runs(store(), key)
        assert run.info.artifact_uri.startswith(copy.as_uri())
        assert [one.path for one in client(store()).list_artifacts(run.info.run_id)] == ["outcomes.jsonl"]


def test_artifacts_elsewhere_stay_there(enter: Enter, tmp_path: Path) -> None:
    """Somebody made the experiment with a place on another disk."""
    project, elsewhere = enter(tmp_path / "project"), tmp_path / "disk"
    client(store()).create_experiment("test", artifact_location=elsewhere.as_uri())
    log(project)
    assert artifacts(project) == [] and len(list(elsewhere.glob("*/artifacts/outcomes.jsonl"))) == 1


@pytest.mark.parametrize("given", ["sqlite:///mlflow.db", "sqlite:///./mlflow.db"])
def test_relative_database_counts_from_the_project(
    given: str, root: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DVC runs `exp run --temp` and queued experiments in a temporary copy, which it deletes."""
    shutil.copy(tables, root / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    copy = tmp_path_factory.mktemp("copy")
    monkeypatch.chdir(copy)
    log(root)
    assert list(copy.iterdir()) == [] and len(artifacts(root)) == 1
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)  # MLflow has changed it
    monkeypatch.chdir(root)
    monkeypatch.delenv("DVC_ROOT")
    shown = view("test")
    assert shown is not None and shown[0] == f"sqlite+pysqlite:///{root}/mlflow.db"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("./mlruns", "{root}/mlruns"),
        ("mlruns/it%20is", "{root}/mlruns/it is"),
        ("file:fs", "{root}/fs"),
        ("file:///a%20b", "/a b"),
    ],
)
def test_relative_folder_counts_from_the_project(
    given: str, address: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    assert store() == Path(address.format(root=root)).as_uri()


def test_other_stores_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ("databricks", "databricks://mine", "http://host:5000", "postgresql://me:x@db/runs", "sqlite://"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
        assert store() == given


def delete(root: Path) -> None:
    log(root)
    client(store()).delete_experiment(opened("test")[1].experiment_id)


def locked(root: Path) -> None:
    (root / "mlruns/mlflow.db").write_bytes(b"no database" * 100)


REFUSALS: dict[str, tuple[str | Callable[[Path], None], str, str]] = {
    "deleted": (delete, "Cannot set a deleted experiment 'test'", "; run `mlflow experiments restore`, or set another"),
    "damaged": (locked, "file is not a database", "; correct its address"),
    "folder": ("./mlruns", "(e.g., './mlruns') is in maintenance mode", "; set MLFLOW_TRACKING_URI to a server or to"),
    "databricks": ("databricks", "databricks", "; set the credentials of Databricks"),
    "typo": ("htp://host", "unsupported URI 'htp://host'", "; set MLFLOW_TRACKING_URI to a server or to"),
}


@pytest.mark.parametrize(("state", "reason", "remedy"), REFUSALS.values(), ids=REFUSALS)
def test_refusal_is_told_once_in_the_words_of_mlflow(
    state: str | Callable[[Path], None],
    reason: str,
    remedy: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if callable(state):
        state(root)
    else:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", state)
    write_run()
    capsys.readouterr()
    for number in range(2):
        with following(PARAMS, f"train/{number}"):
            tell_step(0, {"success": 1.0})
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("mlflow refuses: ") and reason in line and remedy in line
        assert "does not answer" not in line
    with pytest.raises(CoevolveError) as caught:
        ui.run(ui_options())
    assert reason in str(caught.value) and remedy in str(caught.value) and "\n" not in str(caught.value)


def test_silence_is_told_once_with_its_cause(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    write_run()
    with following(PARAMS, "train/0"):
        tell_step(0, {"success": 1.0})
    (line,) = capsys.readouterr().out.splitlines()
    said = "mlflow does not answer ([Errno 111] Connection refused)"
    assert line == f"{said}; `coevolve track` sends what it lacks when it answers"
    with pytest.raises(CoevolveError, match=r"MLflow does not answer \(\[Errno 111\] Connection refused\)"):
        ui.run(ui_options())


def ui_options() -> "ui.argparse.Namespace":
    Path("params.yaml").write_text("iterations: [{t: 0, next: 1}]\ntracking: {experiment: test}\n")
    return ui.argparse.Namespace(experiment="test", port=free_port())
