"""The files of a small finished run, written as stages write them."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coevolve.core.champion import ChampionRule, champion
from coevolve.core.hashing import file_hash, policy_hash
from coevolve.core.io import parse, read_json, write_json, write_jsonl
from coevolve.core.outcomes import OUTCOMES, Outcome, PanelMetrics, metrics
from coevolve.core.paths import Paths
from coevolve.core.pipeline import steps
from coevolve.core.stage_seconds import note_seconds
from coevolve.core.stage_summary import StageSummary, write_summary
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory, write_trajectories
from coevolve.stages import schema
from coevolve.stages.report.run_summary import SUMMARY, Summary
from coevolve.stages.schema import Params
from coevolve.tracking.follow import follow
from tests import ROOT

PARAMS = schema.parse(
    {"iterations": [{"t": 0, "next": 1}], "tracking": {"experiment": "test"}, "evaluate": {"bootstrap": 200}},
    "params.yaml",
)
OFFLINE = PARAMS.model_copy(update={"tracking": PARAMS.tracking.model_copy(update={"wandb": "offline"})})


def task(words: str, origin: Provenance | None = None) -> Task:
    return Task.create("miniworld", "validation", [words], {}, [[ToolCall("pay", {"sum": 3})]], ["shop"], origin)


TASKS = [task(f"pay {n}") for n in range(64)]
GROWN = task("pay it's bill", Provenance(0, ["s"], "e"))


def episode(name: str, one: Task, score: float, words: str = "x") -> Trajectory:
    messages = [{"role": "user", "content": one.turns[0]}, {"role": "assistant", "content": words}]
    return Trajectory(name, one.task_id, 0, 1, 2, 0, messages, [], score, StopReason.DONE, [3], {})


def write_run(solved: Mapping[int, int] | None = None, tasks: int = 64) -> None:
    """Files of policies 0 and 1, which solve so many of ``tasks`` tasks."""
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    for stage in ("train", "evaluate", "report"):
        write_json(Paths.code(stage), {"code": {}, "params": {"seed": 0, stage: {"steps": 3, "text": "x" * 7000}}})
    write_jsonl(Paths.panel("validation"), TASKS)
    write_jsonl(Paths.tasks(0), TASKS[:2])
    write_jsonl(Paths.tasks(1), [TASKS[0], GROWN])
    train()
    for t, count in (solved or {0: 20, 1: 50}).items():
        evaluate(t, count, tasks)
    report()


def train() -> None:
    rows = [{"step": step, "success": step / 2, "loss": 1.0} for step in range(3)]
    write_jsonl(Paths.data(0) / "train_metrics.jsonl", rows)
    write_summary(StageSummary("train", 0, {"gradient steps": 3}, costs=["gradient steps"]))
    write_trajectories(Paths.trajectories(0), [episode("t0", TASKS[0], 0.0), episode("t1", TASKS[1], 1.0)])


def evaluate(t: int, solved: int, tasks: int = 64, seconds: float | None = 10.0) -> None:
    policy = Paths.policy(t)
    policy.mkdir(parents=True, exist_ok=True)
    (policy / "model.safetensors").write_bytes(b"%d" % t)
    found = [
        Outcome("validation", one.task_id, "f", float(n < solved), n < solved, "done", 1, 1, {})
        for n, one in enumerate(TASKS[:tasks])
    ]
    write_jsonl(Paths.evaluation(t) / OUTCOMES, found)
    results = {name: asdict(one) for name, one in metrics(found, PARAMS.evaluate, 0).items()}
    write_json(Paths.evaluation(t) / "metrics.json", results)
    write_summary(StageSummary("evaluate", t, {"evaluation episodes": tasks, "solved": solved}))
    if seconds is not None:
        note_seconds(f"evaluate/{t}", seconds)
    kept = Path("scratch/episodes") / f"{policy_hash(policy)}.parquet"
    write_trajectories(kept, [episode(f"e{t}", TASKS[0], float(t))])


def report() -> None:

    policies = [
        {name: parse(PanelMetrics, one, name) for name, one in read_json(Paths.evaluation(t) / "metrics.json").items()}
        for t in range(2)
    ]
    rule = ChampionRule("validation", PARAMS.report.max_regressions, 200, PARAMS.evaluate.confidence, 0)
    stages = [StageSummary("tasks", 0, {"tasks": 2}, ["tasks"]), StageSummary("validate", 1, {"tasks": 2}, ["tasks"])]
    summary = Summary("abc", "miniworld", 0, 0.95, champion(rule, 1), {}, policies=policies, stages=stages)
    write_json(SUMMARY, asdict(summary))


def write_lock() -> None:
    """DVC's notes: all stages have run with what is here."""
    noted = {}
    for step in steps(PARAMS.iterations):
        key = step.stage if step.t is None else f"{step.stage}@{step.t}"
        deps = [{"path": path, "md5": _hash(Path(path))} for path in step.deps if Path(path).exists()]
        outs = [{"path": path, "md5": _hash(Path(path))} for path in step.outs]
        noted[key] = {"cmd": key, "deps": deps, "outs": outs}
    write_json(Path("dvc.lock"), {"schema": "2.0", "stages": noted})


def _hash(path: Path) -> str:
    if not path.exists():
        return ""
    return policy_hash(path) if path.is_dir() else file_hash(path)


def followed(params: Params = PARAMS) -> int:
    """The number of runs that the follower logs, without a failure."""
    new, failures = follow(params)
    assert not failures, "; ".join(failures)
    return new


def client(uri: str) -> Any:
    import mlflow
    from mlflow.tracking import MlflowClient

    mlflow.set_tracking_uri(uri)
    return MlflowClient(uri)


def runs(uri: str, key: str) -> list[Any]:
    one = client(uri)
    experiment = one.get_experiment_by_name("test")
    return list(one.search_runs([experiment.experiment_id], f"tags.`coevolve.key` = '{key}'"))
