"""Log runs, datasets, model versions and traces to MLflow. Synchronous: MLflow's queue loses points at exit."""

import json
import os
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from coevolve.core.champion import ChampionGate, Incumbent, promoted
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.outcomes import OUTCOMES
from coevolve.core.programs import git
from coevolve.core.scratch import dvc_root, experiment_name, in_turn
from coevolve.core.success import is_success
from coevolve.core.untrusted import one_line, sound
from coevolve.tracking import mlflow_datasets
from coevolve.tracking.mlflow_store import artifacts, database, opened, root, store
from coevolve.tracking.record import POLICY, Model, Result, TrackedRun, Tracker

CHAMPION = "champion"
LONGEST_NAME, LONGEST_VALUE = 250, 6000  # MLflow's limits on names, and on values of params
MEASURED = (
    "coevolve.evaluation"  # tag of a version: the run of its evaluation, if that is later than the version's own run
)
TASKS = "coevolve.tasks"  # tag of a version: the number of tasks that its figures come from
# codes of errors that every further attempt would get again: a value that MLflow does not take, or a part that the store lacks
REFUSALS = frozenset({"INVALID_PARAMETER_VALUE", "FEATURE_DISABLED", "ENDPOINT_NOT_FOUND", "NOT_IMPLEMENTED"})
BEGUN = "coevolve.trace"  # tag of a run: the trace that is being logged
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

Point = tuple[str, int]  # a metric and its step

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


def _points(steps: Sequence[tuple[int, Mapping[str, float]]]) -> dict[Point, float]:
    return {(_name(key), step): float(value) for step, figures in steps for key, value in figures.items()}


def _refused(error: Exception) -> bool:
    """Whether each further attempt would fail too. For a part that it lacks, a server on a store of files fails each time."""
    from requests.exceptions import RetryError

    return getattr(error, "error_code", None) in REFUSALS or isinstance(error.__context__, RetryError)


class Mlflow(Tracker):
    """Each part of a run is logged once, also if an earlier attempt ended in the middle."""

    name = "mlflow"

    def __init__(self, experiment: str) -> None:
        self._experiment = experiment
        self._refused: set[str] = set()  # parts that the store does not take
        self._live: dict[str, str] = {}  # the run of the stage that runs here
        self._monitor: Any = None

    def has(self, key: str, files: str) -> bool:
        """A run that a person has deleted stays deleted."""
        run = self._run(key, files)
        return run is not None and (run.info.status == "FINISHED" or run.info.lifecycle_stage == "deleted")

    def log(self, key: str, files: str, run: TrackedRun) -> None:
        client, points = self._client, _points(run.metrics)
        begun = self._run(key, files)
        name = begun.info.run_id if begun else self._live.pop(key, "") or self._create(key, files, run.seconds)
        self._batch(name, {point: points[point] for point in points.keys() - self._logged(name, points)}, run.params)
        for tag, text in {**run.tags, FILES: files}.items():
            client.set_tag(name, tag, text)
        for path, context in run.datasets:
            self._part(f"the dataset {path}", partial(self._input, name, path, context))
        for path in run.artifacts:
            client.log_artifact(name, str(path.resolve()))
        if run.model:
            self._model(name, run.model)
        self._episodes(name, run)
        for child in run.children:
            self._child(name, child)
        if run.challenge:
            self._challenge(run.challenge)
        self._end(name, "FINISHED")

    def live(self, key: str, step: int, figures: Mapping[str, float]) -> None:
        if key not in self._live:
            self._live[key] = self._create(key, _live(key))
            self._watch(self._live[key])
        self._batch(self._live[key], _points([(step, figures)]), {})

    def leave(self, key: str, status: str) -> None:
        if key in self._live:
            self._end(self._live[key], status)

    def _watch(self, run: str) -> None:
        """Log system metrics if MLflow's own setting asks for them."""
        from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING

        if MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING.get():
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

            self._monitor = SystemMetricsMonitor(run, resume_logging=True)
            self._monitor.start()

    def _end(self, run: str, status: str) -> None:
        if self._monitor:
            self._monitor.finish()
        self._client.set_terminated(run, status)

    @cached_property
    def _client(self) -> Any:
        """A client of the store, in which the experiment exists."""
        with in_turn(
            root() / ".lock"
        ):  # two processes that use a new store for the first time would both create its tables
            client, found = opened(self._experiment)
            if found is None:
                client.create_experiment(self._experiment, artifact_location=artifacts())
                client, found = opened(self._experiment)
        self._id = found.experiment_id
        return client

    def _run(self, key: str, files: str) -> Any:
        """The run of ``key`` that mirrors ``files``, or None."""
        from mlflow.entities import ViewType

        words = f"tags.`{KEY}` = '{_key(key)}' and tags.`{FILES}` = '{files}'"
        return next(iter(self._client.search_runs([self._id], words, ViewType.ALL, 1)), None)

    def _logged(self, run: str, points: Mapping[Point, float]) -> set[Point]:
        """The points that the run has of the metrics in ``points``."""
        names = {name for name, _ in points} & set(self._client.get_run(run).data.metrics)
        return {(name, one.step) for name in names for one in self._client.get_metric_history(run, name)}

    def _create(self, key: str, files: str, seconds: float = 0.0) -> str:
        """The id of a new run, which began ``seconds`` ago. Its name sorts by stage and iteration.

        A live run of ``key`` that a killed stage of this folder left behind ends here.
        """
        left = f"tags.`{FILES}` = '{_live(key)}' and attributes.status = 'RUNNING'"
        for killed in self._client.search_runs([self._id], left):
            self._client.set_terminated(killed.info.run_id, "KILLED")
        stage, _, t = key.partition("/")
        name = f"{stage}/{t.zfill(2)}" if t else stage
        tags = {
            KEY: _key(key),
            FILES: files,
            "coevolve.experiment": experiment_name(),
            "mlflow.source.name": f"coevolve stage {stage} {t}".rstrip(),
            "mlflow.source.type": "LOCAL",
            "mlflow.user": os.environ.get("USER", "unknown"),
        }
        # a DVC experiment builds on a commit
        if commit := os.environ.get("DVC_EXP_BASELINE_REV") or git("rev-parse", "HEAD"):
            tags["git.commit"] = tags["mlflow.source.git.commit"] = commit
        began = int((time.time() - seconds) * 1000)
        run = self._client.create_run(self._id, began, tags, f"{name} {experiment_name()}")
        return str(run.info.run_id)

    def _part(self, what: str, send: Callable[[], object]) -> None:
        """``send`` a part of a run. A part that the store would never accept is left out, and a line says so."""
        from mlflow.exceptions import MlflowException

        if what in self._refused:
            return
        try:
            send()
        except MlflowException as error:
            if not _refused(error):
                raise
            self._refused.add(what)
            print(f"mlflow rejects {what} ({one_line(str(error))}); the run's files have it")

    def _batch(self, run: str, points: Mapping[Point, float], params: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric, Param

        now = int(time.time() * 1000)
        texts = {_name(key): str(value) for key, value in sound(dict(params)).items()}
        self._client.log_batch(
            run,
            [Metric(name, value, now, step) for (name, step), value in points.items()],
            [Param(key, text[:LONGEST_VALUE]) for key, text in texts.items()],
        )
        if any(len(text) > LONGEST_VALUE for text in texts.values()):
            self._client.log_dict(run, texts, "params.json")

    def _input(self, run: str, path: Path, context: str) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        dataset = Dataset(str(path), file_hash(path), "dvc", json.dumps({"path": str(path)}))
        self._client.log_inputs(run, [DatasetInput(dataset, [InputTag("mlflow.data.context", context)])])

    def _model(self, run: str, model: Model) -> None:
        """Register the policy, or update the version with its hash if this evaluation has as many tasks or more."""
        client, digest = self._client, policy_hash(model.path)
        tags = {
            "coevolve.iteration": str(model.iteration),
            "coevolve.experiment": experiment_name(),
            "dvc.path": str(model.path),
            "dvc.hash": digest,
            TASKS: str(model.tasks),
            **{f"coevolve.{key}": f"{value:.4g}" for key, value in model.figures.items()},
        }
        version = self._version(model.name, digest)
        if version is None:
            version = self._register(run, model, tags)
        elif int(version.tags.get(TASKS, 0)) > model.tasks:
            return
        elif version.run_id != run:
            for key, value in {**tags, MEASURED: run}.items():
                client.set_model_version_tag(model.name, version.version, key, value)
        client.update_model_version(model.name, version.version, model.description)  # MLflow shows Markdown

    def _register(self, run: str, model: Model, tags: dict[str, str]) -> Any:
        """A new version, with the signature of a model that answers messages."""
        import mlflow
        from mlflow.models import ModelSignature, set_signature
        from mlflow.types.llm import CHAT_MODEL_INPUT_SCHEMA, CHAT_MODEL_OUTPUT_SCHEMA

        name = f"{model.name.removeprefix('coevolve-')}-{model.iteration}"
        for begun in self._client.search_logged_models([self._id], f"source_run_id = '{run}'"):
            self._client.delete_logged_model(begun.model_id)  # of an attempt that ended in the middle
        made = mlflow.create_external_model(name=name, source_run_id=run, tags=tags, experiment_id=self._id)
        address = f"models:/{made.model_id}"
        set_signature(address, ModelSignature(CHAT_MODEL_INPUT_SCHEMA, CHAT_MODEL_OUTPUT_SCHEMA))
        return mlflow.register_model(address, model.name, tags=tags)

    def _version(self, registered: str, digest: str) -> Any:
        """The version with the hash ``digest``, or None. If a store of an earlier release has several, the latest."""
        versions = self._client.search_model_versions(f"name = '{registered}' and tags.`dvc.hash` = '{digest}'")
        return max(versions, key=lambda version: int(version.version), default=None)

    def _challenge(self, gate: ChampionGate) -> None:
        """Move the alias if the challenger passes the gate. Write the reason for either result to its version."""
        client, ours = self._client, self._version(POLICY, gate.digest)
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
        client = self._client
        number = client.get_registered_model(POLICY).aliases.get(CHAMPION)
        if number is None:
            return None
        one = client.get_model_version(POLICY, str(number))
        run = one.tags.get(MEASURED, one.run_id)
        measured = OUTCOMES in {file.path for file in client.list_artifacts(run)}
        outcomes = Path(client.download_artifacts(run, OUTCOMES)) if measured else None
        return Incumbent(f"version {one.version}", one.tags.get("dvc.hash", ""), outcomes)

    def _child(self, run: str, child: Result) -> None:
        """Make a stage's run a child, unless an earlier pipeline has it."""
        found = self._run(child.key, child.files)
        if found is not None and "mlflow.parentRunId" not in found.data.tags:
            self._client.set_tag(found.info.run_id, "mlflow.parentRunId", run)

    def _episodes(self, name: str, run: TrackedRun) -> None:
        """Log episodes, then the tasks of files as records that lead to the traces of failures."""
        traces = self._whole(name) if run.traces else {}
        for trajectory, tags in run.traces:
            if trajectory.trajectory_id in traces:
                continue
            try:
                # MLflow shows words as Markdown, and an image in them would send a request to a server of the agent's choice
                episode = json.loads(json.dumps(sound(asdict(trajectory))).replace("![", r"!\\["))
            except ValueError as error:
                print(f"mlflow does not get the trace {trajectory.trajectory_id}: it is {error}")
            else:
                traces[trajectory.trajectory_id] = self._trace(name, episode, tags)
        if run.traces:
            self._client.set_tag(name, BEGUN, "")
        for path in run.tasks:
            log = partial(mlflow_datasets.log, self._client, str(self._id), path, _key(str(path)), run.sources, traces)
            self._part("evaluation datasets", log)

    def _whole(self, run: str) -> dict[str, str]:
        """The traces that a run has, by trajectory. A trace that an earlier attempt left half made is deleted."""
        import mlflow

        if half := self._client.get_run(run).data.tags.get(BEGUN):
            self._client.delete_traces(self._id, trace_ids=[half])
        found = mlflow.search_traces(locations=[self._id], run_id=run, include_spans=False, return_type="list")
        return {one.info.tags["trajectory_id"]: one.info.trace_id for one in found}

    def _trace(self, run: str, one: Mapping[str, Any], more: Mapping[str, str]) -> str:
        """The id of the trace of an episode. A judgement of it is a column of MLflow's view that compares two runs."""
        import mlflow
        from mlflow.entities import AssessmentSource

        tags = {key: str(one[key]) for key in ("trajectory_id", "task_id", "iteration", "step", "group", "score")}
        tags |= {"coevolve.experiment": experiment_name(), **more}
        request = list(takewhile(lambda message: message["role"] != "assistant", one["messages"]))
        whole = mlflow.start_span_no_context(
            f"task {one['task_id'][:LONGEST_NAME]}",
            "AGENT",
            inputs={"task_id": one["task_id"], "messages": request},
            attributes={"score": str(one["score"]), "stop_reason": str(one["stop_reason"])},
            tags=tags,
            metadata={"mlflow.sourceRun": run},
            experiment_id=self._id,
        )
        self._client.set_tag(run, BEGUN, whole.trace_id)
        for message in one["messages"][len(request) :]:
            kind = {"assistant": "LLM", "tool": "TOOL"}.get(message["role"], "UNKNOWN")
            span = mlflow.start_span_no_context(message["role"], kind, parent_span=whole)
            span.end(outputs=message["content"])
        success = is_success(one["score"])
        whole.end(
            outputs={"score": one["score"], "checks": one["checks"], "stop_reason": str(one["stop_reason"])},
            status="OK" if success else "ERROR",
        )
        # raises an error if the export failed; the export itself only logs failures
        self._client.get_trace(whole.trace_id, display=False)
        judge = partial(
            mlflow.log_feedback,
            trace_id=whole.trace_id,
            name="success",
            value=success,
            source=AssessmentSource("CODE", "checker"),
            metadata={"mlflow.assessment.sourceRunId": run},
        )
        self._part("judgements of traces", judge)
        return str(whole.trace_id)


def _live(key: str) -> str:
    """The tag of a stage of this folder's experiment that runs: on a shared server, the runs of other folders are not ours."""
    return content_hash(["live", socket.gethostname(), str(dvc_root()), experiment_name(), key])
