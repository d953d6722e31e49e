"""Open MLflow's store: stages, queued experiments, `coevolve ui` and `coevolve doctor` resolve its address here."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from coevolve.core.scratch import dvc_root

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("MLFLOW_ENABLE_ASYNC_TRACE_LOGGING", "false")  # its flush takes a second per trace
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

SQLITE = "sqlite+pysqlite"  # for `sqlite` alone, MLflow makes a folder whose name holds the address's escapes
FOLDER = "artifacts"  # beside the database
# columns of MLflow's tables that hold absolute places of artifacts
PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "storage_location"),
    ("trace_tags", "value"),
)


def root() -> Path:
    """The folder of the project's own store: under DVC's root, also for queued experiments."""
    return dvc_root() / "mlruns"


def store() -> str:
    """MLFLOW_TRACKING_URI, or the project's own database. A relative path counts from the project's folder."""
    from mlflow.utils.file_utils import local_file_uri_to_path
    from mlflow.utils.uri import is_local_uri
    from sqlalchemy import URL, make_url

    given = os.environ.get("MLFLOW_TRACKING_URI") or URL.create(SQLITE, database=str(root() / "mlflow.db"))
    if str(given).startswith("sqlite"):
        url = make_url(given)
        file = url.database or ":memory:"
        if file.startswith((":memory:", "file:")):
            return str(given)
        return str(url.set(drivername=SQLITE, database=str(dvc_root() / file)))
    return (dvc_root() / local_file_uri_to_path(given)).as_uri() if is_local_uri(given) else str(given)


def database() -> Path | None:
    """The file of the store; None if the store is no database of SQLite."""
    from sqlalchemy import make_url

    return Path(make_url(store()).database or "") if store().startswith("sqlite") else None


def artifacts() -> str | None:
    """The place for artifacts of a new experiment, as a URI. None if the store decides.

    A database in the project has its artifacts there too, and moves with them.
    """
    file = database()
    if file is None:
        return None
    return ((root() if file.is_relative_to(dvc_root()) else file.parent) / FOLDER).as_uri()


def opened(experiment: str) -> tuple[Any, Any]:
    """A client of the store, and the ``experiment``, or None if the store lacks it. Raises MLflow's errors."""
    import mlflow
    from mlflow.tracking import MlflowClient

    mlflow.set_tracking_uri(store())
    client = MlflowClient()
    found = client.get_experiment_by_name(experiment)
    if found is not None:
        _follow(found.artifact_location)
        mlflow.set_experiment(experiment_id=found.experiment_id)  # an error if the experiment was deleted
    return client, found


def _follow(place: str) -> None:
    """If the project was moved or copied after its experiment got ``place`` for artifacts, correct its database.

    MLflow stores absolute places, and its client cannot change them: runs would write into the project's old folder.
    """
    file, now = database(), artifacts()
    ours = place.startswith(("file:", "/")) and place.endswith(f"/{root().name}/{FOLDER}")
    if file is None or not ours or place == now or not file.is_relative_to(dvc_root()):
        return
    with closing(sqlite3.connect(file)) as tables, tables:
        for table, column in PLACES:
            tables.execute(
                f"UPDATE {table} SET {column} = :now || substr({column}, length(:place) + 1) "
                f"WHERE substr({column} || '/', 1, length(:place) + 1) = :place || '/'",
                {"now": now, "place": place},
            )
    print(f"mlflow: the project has moved; its artifacts are in {root() / FOLDER}")
