"""Log runs, datasets, model versions and traces to MLflow. Synchronous: MLflow's queue loses points at exit."""

import fcntl
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core import dvc
from coevolve.core.champion import ChampionGate, Incumbent, promoted
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.outcomes import OUTCOMES
from coevolve.core.paths import Paths
from coevolve.core.programs import git
from coevolve.core.success import is_success
from coevolve.core.untrusted import one_line, sound
from coevolve.tracking import mlflow_datasets
from coevolve.tracking.mlflow_store import artifacts, database, opened, root, store
from coevolve.tracking.record import POLICY, Details, Model, Trace, TrackedRun

CHAMPION = "champion"
LONGEST_NAME, LONGEST_VALUE = 250, 6000  # MLflow's limits on names, and on values of params
REFUSED = "INVALID_PARAMETER_VALUE"  # the code of an error that every further attempt would get again
MEASURED = (
    "coevolve.evaluation"  # tag of a version: the run of its evaluation, if that is later than the version's own run
)
BATCH, POINTS = 100, 1000  # most params, and most points of metrics, in a request to MLflow
TASKS = "coevolve.tasks"  # tag of a version: the number of tasks that its figures come from
# parts that file stores and older servers lack
DATASETS, JUDGEMENTS = "evaluation datasets", "judgements of traces"
# error codes of stores without such parts; a server on a file store answers with 500 instead
UNKNOWN = frozenset({"FEATURE_DISABLED", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED"})
VIEW = "coevolve"  # name of the shared view that sets the columns
COLUMNS = [
    "attributes.`Created`",
    "tags.`coevolve.experiment`",
    "tags.`coevolve.run`",
    "tags.`git.commit`",
    "params.`seed`",
    "params.`train.learner`",
    "params.`train.steps`",
    "metrics.`validation/success`",
    "metrics.`test/success`",
    "metrics.`hard/success`",
    "metrics.`shifted/success`",
    "metrics.`tasks`",
]

KEY, FILES = "coevolve.key", "coevolve.files"  # tags of a run: its stage, and the hash of the files that it mirrors


def view(experiment: str) -> tuple[str, str] | None:
    """The store, and the page of the experiment's runs with its columns; None if there are no runs.

    The columns are a shared view: a tag of the experiment that MLflow's UI reads (see its `Share` button). The workflow is
    "Model training": MLflow's menu for GenAI has neither runs nor models.
    """
    file = database()
    if file is not None and not file.exists():
        return None
    client, found = opened(experiment)
    if found is None:
        return None
    columns = {"orderByKey": "attributes.start_time", "orderByAsc": False, "selectedColumns": COLUMNS}
    client.set_experiment_tag(found.experiment_id, f"mlflow.sharedViewState.{VIEW}", json.dumps(columns))
    page = f"#/experiments/{found.experiment_id}/runs"
    return store(), f"{page}?viewStateShareKey={VIEW}&workflowType=machine_learning"


def _name(key: str) -> str:
    """``key`` as a name of params and metrics that MLflow and its filters accept: a path without dots, at most LONGEST_NAME long."""
    parts = re.sub(r"[^/\w.\-]+", "_", key)[:LONGEST_NAME].split("/")
    return "/".join(part for part in parts if part.strip(".")) or "_"


def _key(key: str) -> str:
    """``key`` without quotes, which would end a text in MLflow's filters."""
    return re.sub(r"['\"`\\]", "_", key)[:LONGEST_NAME]


def _lacks(error: Exception) -> bool:
    """Whether the store does not know the request of ``error``: it says so, or it answers, but fails each time."""
    from requests.exceptions import RetryError

    return getattr(error, "error_code", None) in UNKNOWN or isinstance(error.__context__, RetryError)


@contextmanager
def _lock() -> Iterator[None]:
    """Let one process at a time of this project change the store."""
    with (root() / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Mlflow:
    """See ``coevolve.tracking.follow.Tracker``."""

    name = "mlflow"

    def __init__(self, experiment: str) -> None:
        self._experiment = experiment
        self._id: str | None = None
        self._lacking: set[str] = set()  # parts that the store does not know

    def log(self, record: TrackedRun) -> bool:
        client, run = self._client(), self._run(record.key, record.files)
        if run is not None and run.info.status == "FINISHED":
            return False
        live = self._run(record.key, _live(record.key))
        if run is None and live is not None:  # the stage that this process or a killed one ran has its files now
            run = live
            client.set_tag(run.info.run_id, FILES, record.files)
        if run is None:
            run = self._create(record.key, record.files)
        name, details = run.info.run_id, record.details()
        for tag, text in record.tags.items():
            client.set_tag(name, tag, text)
        self._params(name, record)
        self._metrics(name, record.metrics)
        for path, context in record.datasets:
            self._part(f"the dataset {path}", partial(self._input, name, path, context))
        for path in record.artifacts:
            client.log_artifact(name, str(path.resolve()))
        if details.model:
            self._model(name, details.model)
        self._traces(name, details)
        for child in record.children:
            self._child(name, child)
        if details.challenge:
            self._challenge(details.challenge)
        client.set_terminated(name, "FINISHED")
        return True

    def live(self, key: str, step: int, figures: Mapping[str, float]) -> None:
        run = self._run(key, _live(key)) or self._create(key, _live(key))
        if run.info.status != "RUNNING":
            self._client().update_run(run.info.run_id, "RUNNING")
        self._metrics(run.info.run_id, [(step, figures)])

    def leave(self, key: str, status: str) -> None:
        if run := self._run(key, _live(key)):
            self._client().set_terminated(run.info.run_id, status)

    def _client(self) -> Any:
        """A client of the store, in which the experiment exists."""
        from mlflow.tracking import MlflowClient

        if self._id is not None:
            return MlflowClient()
        root().mkdir(exist_ok=True)
        with _lock():  # two processes that use a new store for the first time would both create its tables
            client, found = opened(self._experiment)
            if found is None:
                client.create_experiment(self._experiment, artifact_location=artifacts())
                client, found = opened(self._experiment)
        self._id = found.experiment_id
        return client

    def _run(self, key: str, files: str) -> Any:
        """The run of ``key`` that mirrors ``files``, or None."""
        words = f"tags.`{KEY}` = '{_key(key)}' and tags.`{FILES}` = '{files}'"
        return next(iter(self._client().search_runs([self._id], words, max_results=1)), None)

    def _create(self, key: str, files: str) -> Any:
        """A new run. Its name sorts by stage and iteration."""
        stage, _, t = key.partition("/")
        name = f"{stage}/{t.zfill(2)}" if t else stage
        tags = {KEY: _key(key), FILES: files, "coevolve.experiment": dvc.experiment_name()}
        # a DVC experiment builds on a commit
        if commit := os.environ.get("DVC_EXP_BASELINE_REV") or git("rev-parse", "HEAD"):
            tags["git.commit"] = commit
        return self._client().create_run(self._id, tags=tags, run_name=f"{name} {dvc.experiment_name()}")

    def _part(self, what: str, send: Callable[[], object], newer: str = "") -> None:
        """``send`` a part of a run. A part that the store would never accept is left out, and a line says so."""
        from mlflow.exceptions import MlflowException

        if newer in self._lacking:
            return
        try:
            send()
        except MlflowException as error:
            if newer and _lacks(error):
                self._lacking.add(newer)
                print(f"this store of mlflow takes no {newer}; they need a database and a server of MLflow 3.4")
            elif error.error_code == REFUSED:
                print(f"mlflow rejects {what} ({one_line(str(error))}); the run's files have it")
            else:
                raise

    def _params(self, run: str, record: TrackedRun) -> None:
        from mlflow.entities import Param

        texts = {_name(key): str(value) for key, value in sound(dict(record.params)).items()}
        params = [Param(key, text[:LONGEST_VALUE]) for key, text in texts.items()]
        for first in range(0, len(params), BATCH):
            self._client().log_batch(run, params=params[first : first + BATCH])
        if any(len(text) > LONGEST_VALUE for text in texts.values()):
            self._client().log_dict(run, texts, "params.json")

    def _metrics(self, run: str, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Log the points that the run lacks."""
        from mlflow.entities import Metric

        client, now = self._client(), int(time.time() * 1000)
        points = {(_name(key), step): float(value) for step, figures in steps for key, value in figures.items()}
        logged = client.get_run(run).data.metrics
        known = {
            (name, one.step)
            for name in {name for name, _ in points} & set(logged)
            for one in client.get_metric_history(run, name)
        }
        metrics = [
            Metric(name, value, now, step) for (name, step), value in points.items() if (name, step) not in known
        ]
        for first in range(0, len(metrics), POINTS):
            client.log_batch(run, metrics=metrics[first : first + POINTS])

    def _input(self, run: str, path: Path, context: str) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        dataset = Dataset(str(path), file_hash(path), "dvc", json.dumps({"path": str(path)}))
        self._client().log_inputs(run, [DatasetInput(dataset, [InputTag("mlflow.data.context", context)])])

    def _model(self, run: str, model: Model) -> None:
        """Register the policy, or update the version with its hash if this evaluation has as many tasks or more."""
        import mlflow

        client, digest = self._client(), policy_hash(model.path)
        tags = {
            "coevolve.iteration": str(model.iteration),
            "coevolve.experiment": dvc.experiment_name(),
            "dvc.path": str(model.path),
            "dvc.hash": digest,
            TASKS: str(model.tasks),
            **{f"coevolve.{key}": f"{value:.4g}" for key, value in model.figures.items()},
        }
        with _lock():  # two experiments may register the same policy at the same time
            version = self._version(model.name, digest)
            if version is not None and int(version.tags.get(TASKS, 0)) > model.tasks:
                return
            if version is None:
                kind = model.name.removeprefix("coevolve-")
                made = mlflow.create_external_model(
                    name=f"{kind}-{model.iteration}", source_run_id=run, tags=tags, experiment_id=self._id
                )
                version = mlflow.register_model(f"models:/{made.model_id}", model.name, tags=tags)
            else:
                for key, value in {**tags, MEASURED: run}.items():
                    client.set_model_version_tag(model.name, version.version, key, value)
        client.update_model_version(model.name, version.version, model.description)  # MLflow shows Markdown

    def _version(self, registered: str, digest: str) -> Any:
        """The version with the hash ``digest``, or None. If a store of an earlier release has several, the latest."""
        versions = self._client().search_model_versions(f"name = '{registered}' and tags.`dvc.hash` = '{digest}'")
        return max(versions, key=lambda version: int(version.version), default=None)

    def _challenge(self, gate: ChampionGate) -> None:
        """Move the alias if the challenger passes the gate. Write the reason for either result to its version."""
        client, ours = self._client(), self._version(POLICY, gate.digest)
        if ours is None:
            return
        name, holder = f"version {ours.version}", self._holder()
        if holder is not None and holder.name == name:
            return  # it has the alias already
        taken, reason = promoted(gate, holder, name)
        client.set_model_version_tag(POLICY, ours.version, "coevolve.promotion", reason)
        if taken:
            client.set_registered_model_alias(POLICY, CHAMPION, ours.version)

    def _holder(self) -> Incumbent | None:
        """The version with the alias."""
        client = self._client()
        number = client.get_registered_model(POLICY).aliases.get(CHAMPION)
        if number is None:
            return None
        one = client.get_model_version(POLICY, str(number))
        run = one.tags.get(MEASURED, one.run_id)
        measured = OUTCOMES in {file.path for file in client.list_artifacts(run)}
        outcomes = Path(client.download_artifacts(run, OUTCOMES)) if measured else None
        return Incumbent(f"version {one.version}", one.tags.get("dvc.hash", ""), outcomes)

    def _child(self, run: str, child: TrackedRun) -> None:
        """Make a stage's run a child, unless an earlier pipeline has it."""
        found = self._run(child.key, child.files)
        if found is not None and "mlflow.parentRunId" not in found.data.tags:
            self._client().set_tag(found.info.run_id, "mlflow.parentRunId", run)

    def _traces(self, run: str, details: Details) -> None:
        """Log episodes, then the tasks of files as records that lead to the traces of failures."""
        traces: dict[str, str] = {}
        for trace in details.traces:
            try:
                # MLflow shows words as Markdown, and an image in them would send a request to a server of the agent's choice
                episode = json.loads(json.dumps(sound(asdict(trace.trajectory))).replace("![", r"!\\["))
            except ValueError as error:
                print(f"mlflow does not get the trace {trace.trajectory.trajectory_id}: it is {error}")
                continue
            traces[trace.trajectory.trajectory_id] = self._trace(run, trace, episode)
        for path in details.tasks:
            with _lock():  # two experiments may log the same tasks at the same time
                send = partial(
                    mlflow_datasets.log, self._client(), str(self._id), path, _key(str(path)), details.sources, traces
                )
                self._part(f"the tasks of {path}", send, DATASETS)

    def _trace(self, run: str, trace: Trace, one: Mapping[str, Any]) -> str:
        """The id of the trace of an episode. A judgement of it is a column of MLflow's view that compares two runs."""
        import mlflow
        from mlflow.entities import AssessmentSource

        tags = {key: str(one[key]) for key in ("trajectory_id", "task_id", "iteration", "step", "group", "score")}
        tags |= {"policy": str(Paths.policy(one["iteration"])), "coevolve.experiment": dvc.experiment_name()}
        if trace.kinds:
            tags["signal"] = ", ".join(trace.kinds)
        if trace.panel:
            tags["panel"] = trace.panel
        whole = mlflow.start_span_no_context(
            f"task {one['task_id'][:LONGEST_NAME]}",
            "AGENT",
            inputs={"task_id": one["task_id"], "messages": one["messages"][:1]},
            attributes={"score": str(one["score"]), "stop_reason": str(one["stop_reason"])},
            tags=tags,
            metadata={"mlflow.sourceRun": run},
            experiment_id=self._id,
        )
        for message in one["messages"][1:]:
            kind = {"assistant": "LLM", "tool": "TOOL"}.get(message["role"], "UNKNOWN")
            span = mlflow.start_span_no_context(message["role"], kind, parent_span=whole)
            span.end(outputs=message["content"])
        success = is_success(one["score"])
        whole.end(
            outputs={"score": one["score"], "checks": one["checks"], "stop_reason": str(one["stop_reason"])},
            status="OK" if success else "ERROR",
        )
        # raises an error if the export failed; the export itself only logs failures
        self._client().get_trace(whole.trace_id, display=False)
        judge = partial(
            mlflow.log_feedback,
            trace_id=whole.trace_id,
            name="success",
            value=success,
            source=AssessmentSource("CODE", "checker"),
            metadata={"mlflow.assessment.sourceRunId": run},
        )
        self._part("a judgement", judge, JUDGEMENTS)
        return str(whole.trace_id)


def _live(key: str) -> str:
    """The tag of a stage of this folder's experiment that runs: on a shared server, the runs of other folders are not ours."""
    return content_hash(["live", socket.gethostname(), str(dvc.root()), dvc.experiment_name(), key])
