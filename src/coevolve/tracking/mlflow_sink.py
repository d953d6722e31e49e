"""Send events to MLflow as runs, datasets, model versions and traces. Synchronous: MLflow's queue loses points at exit."""

import fcntl
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coevolve.core.io import parse
from coevolve.core.outcomes import OUTCOMES
from coevolve.core.paths import Paths
from coevolve.core.success import is_success
from coevolve.core.untrusted import markdown, one_line
from coevolve.tracking import mlflow_datasets
from coevolve.tracking.champion import ChampionGate, Incumbent, promoted
from coevolve.tracking.journal import POLICY
from coevolve.tracking.mlflow_store import artifacts, database, opened, root, store

CHAMPION = "champion"
OURS = ("coevolve.experiment", "coevolve.clone")  # tags of runs that a later run of the same key follows
LONGEST_NAME, LONGEST_VALUE = 250, 6000  # MLflow's limits on names, and on values of params
REFUSED = "INVALID_PARAMETER_VALUE"  # the code of an error that every further attempt would get again
MEASURED = (
    "coevolve.evaluation"  # tag of a version: the run of its evaluation, if that is later than the version's own run
)
BATCH = 100  # most params in a request to MLflow
# event kinds that file stores and older servers lack, with display names
NEWER = {"records": "evaluation datasets", "feedback": "judgements of traces"}
# error codes of stores without such events; a server on a file store answers with 500 instead
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

Event = dict[str, Any]
State = dict[str, Any]


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
    """See ``coevolve.tracking.journal.Sink``. The method ``_KIND`` logs events of that kind."""

    name = "mlflow"

    def __init__(self, experiment: str) -> None:
        self._experiment = experiment
        self._id: str | None = None
        self._lacking: set[str] = set()  # kinds of events that the store does not know

    def apply(self, event: Event, state: State) -> None:
        from mlflow.exceptions import MlflowException

        if event["kind"] in self._lacking:
            return
        try:
            getattr(self, f"_{event['kind']}")(event, state)
        except MlflowException as error:
            if event["kind"] in NEWER and _lacks(error):
                self._lacking.add(event["kind"])
                print(
                    f"this store of mlflow takes no {NEWER[event['kind']]}; they need a database and a server of MLflow 3.4"
                )
                return
            if error.error_code != REFUSED or event["kind"] == "start":
                raise
            print(f"mlflow rejects a {event['kind']} ({one_line(str(error))}); the run's files have it")

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

    def _start(self, event: Event, state: State) -> None:
        client = self._client()
        ours = {key: event["tags"].get(key) for key in OURS}
        for run in self._runs(event["key"], ours):
            if run.info.status == "RUNNING":
                client.set_terminated(run.info.run_id, "KILLED")
        tags = {**event["tags"], "coevolve.key": _key(event["key"])}
        run = client.create_run(self._id, start_time=event["time"], tags=tags, run_name=event["name"])
        state["run"], state["experiment"], state["ours"] = run.info.run_id, ours["coevolve.experiment"], ours

    def _runs(self, key: str, ours: Mapping[str, str | None]) -> list[Any]:
        """Runs of a key with the tags ``ours``, the latest first."""
        client = self._client()
        found = client.search_runs(
            [self._id], f"tags.`coevolve.key` = '{_key(key)}'", order_by=["attributes.start_time DESC"]
        )
        return [run for run in found if all(run.data.tags.get(name) == value for name, value in ours.items())]

    def _params(self, event: Event, state: State) -> None:
        from mlflow.entities import Param

        params = [Param(_name(key), value[:LONGEST_VALUE]) for key, value in event["values"].items()]
        for first in range(0, len(params), BATCH):
            self._client().log_batch(state["run"], params=params[first : first + BATCH])

    def _metrics(self, event: Event, state: State) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(_name(key), value, event["time"], event["step"]) for key, value in event["values"].items()]
        self._client().log_batch(state["run"], metrics=metrics)

    def _dataset(self, event: Event, state: State) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        dataset = Dataset(event["path"], event["digest"], "dvc", json.dumps({"path": event["path"]}))
        tag = InputTag("mlflow.data.context", event["context"])
        self._client().log_inputs(state["run"], [DatasetInput(dataset, [tag])])

    def _artifact(self, event: Event, state: State) -> None:
        if Path(event["path"]).exists():
            self._client().log_artifact(state["run"], event["path"])

    def _model(self, event: Event, state: State) -> None:
        """Register the policy, or update the version with its hash. Tags and description are those of the last evaluation."""
        import mlflow

        client = self._client()
        tags = {
            "coevolve.iteration": str(event["iteration"]),
            "coevolve.experiment": state["experiment"],
            "dvc.path": event["path"],
            "dvc.hash": event["digest"],
            **{f"coevolve.{key}": f"{value:.4g}" for key, value in event["values"].items()},
        }
        registered, kind = event["name"], event["name"].removeprefix("coevolve-")
        with _lock():  # two experiments may register the same policy at the same time
            version = self._version(registered, event["digest"])
            if version is None:
                model = mlflow.create_external_model(
                    name=f"{kind}-{event['iteration']}", source_run_id=state["run"], tags=tags, experiment_id=self._id
                )
                version = mlflow.register_model(f"models:/{model.model_id}", registered, tags=tags)
            else:
                for key, value in {**tags, MEASURED: state["run"]}.items():
                    client.set_model_version_tag(registered, version.version, key, value)
        # MLflow shows a description as Markdown
        numbers = ", ".join(f"{markdown(name)} {value:.2f}" for name, value in event["values"].items())
        client.update_model_version(
            registered, version.version, f"{event['path']} at iteration {event['iteration']}: {numbers}"
        )

    def _version(self, registered: str, digest: str) -> Any:
        """The version with the hash ``digest``, or None. If a store of an earlier release has several, the latest."""
        versions = self._client().search_model_versions(f"name = '{registered}' and tags.`dvc.hash` = '{digest}'")
        return max(versions, key=lambda version: int(version.version), default=None)

    def _challenge(self, event: Event, state: State) -> None:
        """Move the alias if the challenger passes the gate. Write the reason for either result to its version."""
        client, gate = self._client(), parse(ChampionGate, event["gate"], "challenge")
        ours = self._version(POLICY, gate.digest)
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

    def _child(self, event: Event, state: State) -> None:
        if runs := self._runs(event["key"], state["ours"]):
            self._client().set_tag(runs[0].info.run_id, "mlflow.parentRunId", state["run"])

    def _trace(self, event: Event, state: State) -> None:
        import mlflow

        client = self._client()
        # MLflow shows words as Markdown, and an image in them would send a request to a server of the agent's choice
        one = json.loads(json.dumps(event["trajectory"]).replace("![", r"!\\["))
        tags = {key: str(one[key]) for key in ("trajectory_id", "task_id", "iteration", "step", "group", "score")}
        tags |= {"policy": str(Paths.policy(one["iteration"])), "coevolve.experiment": state["experiment"]}
        if event["signals"]:
            tags["signal"] = ", ".join(event["signals"])
        if event["panel"]:
            tags["panel"] = event["panel"]
        whole = mlflow.start_span_no_context(
            f"task {one['task_id'][:LONGEST_NAME]}",
            "AGENT",
            inputs={"task_id": one["task_id"], "messages": one["messages"][:1]},
            attributes={"score": str(one["score"]), "stop_reason": str(one["stop_reason"])},
            tags=tags,
            metadata={"mlflow.sourceRun": state["run"]},
            experiment_id=self._id,
        )
        for message in one["messages"][1:]:
            kind = {"assistant": "LLM", "tool": "TOOL"}.get(message["role"], "UNKNOWN")
            span = mlflow.start_span_no_context(message["role"], kind, parent_span=whole)
            span.end(outputs=message["content"])
        whole.end(
            outputs={"score": one["score"], "checks": one["checks"], "stop_reason": str(one["stop_reason"])},
            status="OK" if is_success(one["score"]) else "ERROR",
        )
        client.get_trace(
            whole.trace_id, display=False
        )  # raises an error if the export failed; the export itself only logs failures
        state.setdefault("traces", {})[one["trajectory_id"]] = whole.trace_id

    def _feedback(self, event: Event, state: State) -> None:
        """Judge a trace. MLflow's view that compares two runs has a column for it."""
        import mlflow
        from mlflow.entities import AssessmentSource

        if trace := state.get("traces", {}).get(event["trajectory"]):
            mlflow.log_feedback(
                trace_id=trace,
                name="success",
                value=event["success"],
                source=AssessmentSource("CODE", "checker"),
                metadata={"mlflow.assessment.sourceRunId": state["run"]},
            )

    def _records(self, event: Event, state: State) -> None:
        client, named = self._client(), {**event, "path": _key(event["path"])}
        with _lock():  # two experiments may log the same tasks at the same time
            mlflow_datasets.log(client, str(self._id), named, state.get("traces", {}))

    def _end(self, event: Event, state: State) -> None:
        self._client().set_terminated(state["run"], event["status"], event["time"])
