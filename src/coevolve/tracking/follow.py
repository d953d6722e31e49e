"""The follower: what the files of this project hold, and a tracker lacks, is logged.

Files are the truth, and trackers mirror them. A run has the tags `coevolve.key` (`train/0`) and `coevolve.files`, a hash of the
files that it mirrors. So a tracker that was down, a new store, or a clone after `dvc pull` gets every run once. No failure of a
tracker fails a stage: it is one line.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from coevolve.core.champion import ChampionRule, gate
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import parse, read_json, read_jsonl_objects
from coevolve.core.outcomes import OUTCOMES, PanelMetrics
from coevolve.core.paths import Paths
from coevolve.core.pipeline import steps
from coevolve.core.scratch import scratch
from coevolve.core.section import dotted
from coevolve.core.stage_seconds import curve, listeners, seconds
from coevolve.core.stage_summary import FAILURE_IDLE, StageSummary
from coevolve.core.success import is_success
from coevolve.core.trajectories import read_trajectories
from coevolve.core.untrusted import markdown
from coevolve.stages.report.run_summary import SUMMARY, Summary
from coevolve.stages.report.tables import by_iteration, totals
from coevolve.stages.report.write import origins, weak
from coevolve.stages.schema import Params
from coevolve.tracking.record import FAILURE, GENERATOR, POLICY, Details, Model, Trace, TrackedRun
from coevolve.tracking.refusals import remedy, said

LATER = "`coevolve track` sends what it lacks when it answers"


class Tracker(Protocol):
    name: str

    def log(self, record: TrackedRun) -> bool:
        """Log what the tracker lacks of ``record``. Returns whether it lacked anything."""
        ...

    def live(self, key: str, step: int, figures: Mapping[str, float]) -> None:
        """Log a step of a training that has no files yet."""
        ...

    def leave(self, key: str, status: str) -> None:
        """End the live run of a stage that failed."""
        ...


def follow(params: Params) -> tuple[int, list[str]]:
    """Log what the trackers lack. Returns the number of new runs, and a line per tracker that failed."""
    new, failures = 0, []
    for tracker in trackers(params):
        try:
            for record in records(params):
                new += tracker.log(record)
        except CoevolveError:
            raise
        except Exception as error:
            failures.append(_failure(tracker, error))
    return new, failures


@contextmanager
def following(params: Params, key: str) -> Iterator[None]:
    """Log the steps of the stage ``key`` while it runs, and its files after it."""
    live = trackers(params)
    told: set[str] = set()

    def hear(step: int, figures: Mapping[str, float]) -> None:
        _each(live, lambda tracker: tracker.live(key, step, figures), told)

    listeners.append(hear)
    status = "FAILED"
    try:
        yield
        status = ""
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        listeners.remove(hear)
        if status:
            _each(live, lambda tracker: tracker.leave(key, status), told)
    for line in follow(params)[1]:
        if line not in told:
            print(line)


def trackers(params: Params) -> list[Tracker]:
    """The trackers that section `tracking` enables."""
    found: list[Tracker] = []
    if params.tracking.mlflow != "disabled":
        from coevolve.tracking.mlflow_sink import Mlflow

        found.append(Mlflow(params.tracking.experiment))
    if params.tracking.wandb != "disabled":
        from coevolve.tracking.wandb_sink import Wandb

        found.append(Wandb(params.tracking.experiment, params.tracking.wandb))
    return found


def _each(live: list[Tracker], act: Callable[[Tracker], None], told: set[str]) -> None:
    """Let each tracker ``act``. One that fails is left alone until the stage's end, so that it never slows the stage."""
    for tracker in list(live):
        try:
            act(tracker)
        except Exception as error:
            live.remove(tracker)
            told.add(line := _failure(tracker, error))
            print(line)


def _failure(tracker: Tracker, error: Exception) -> str:
    return f"{tracker.name} {said(error)}; {remedy(error) or LATER}"


def records(params: Params) -> list[TrackedRun]:
    """The runs that the files of this project hold, in the order of the loop, the pipeline's last."""
    found = []
    for step in steps(params.iterations):
        file = next((Path(out) for out in step.outs if Path(out).parent.name == "summary"), None)
        if step.stage == "train" and not params.trains:
            continue  # another trainer has the curve
        if file is not None and file.exists() and step.stage in KINDS:
            summary = parse(StageSummary, read_json(file), str(file))
            if record := KINDS[step.stage](summary, file):
                found.append(record)
    if SUMMARY.exists() and params.trains:
        found.append(_pipeline(params, parse(Summary, read_json(SUMMARY), str(SUMMARY)), list(found)))
    return found


def _params(stage: str) -> dict[str, Any]:
    """The parameters that ``stage`` ran with, by the digest in data/code."""
    file = Paths.code(stage)
    return dotted(read_json(file)["params"]) if file.exists() else {}


def _record(summary: StageSummary, files: list[Path], **parts: Any) -> TrackedRun:
    """A stage's run, which mirrors ``files``, with ``parts`` of a TrackedRun."""
    t = summary.iteration
    identity = content_hash([file_hash(file) for file in files if file.exists()])
    environment = read_json(Paths.environment)["name"] if Paths.environment.exists() else ""
    settings = {**_params(summary.stage), "iteration": t, "environment": environment}
    whole: dict[str, Any] = {"details": Details, **parts}
    return TrackedRun(f"{summary.stage}/{t}", identity, settings, **whole)


def _warm(summary: StageSummary, file: Path) -> TrackedRun | None:
    """None if there was no warm start."""
    measured = _measured(summary)
    last = int(measured.get("warm start steps", 0))
    metrics = [*curve("warm").items(), (last, measured)]
    return _record(summary, [file], metrics=metrics) if measured else None


def _train(summary: StageSummary, file: Path) -> TrackedRun:
    """The curve is that of train_metrics.jsonl, with the times that only this machine knows."""
    t = summary.iteration
    rows = Paths.data(t) / "train_metrics.jsonl"
    known = curve(f"train/{t}")
    metrics = [(int(row["step"]), {**known.get(int(row["step"]), {}), **row}) for row in _rows(rows)]
    return _record(summary, [file, rows], metrics=metrics, datasets=[(Paths.tasks(t), "training")])


def _pairs(summary: StageSummary, file: Path) -> TrackedRun | None:
    """None for a learner without pairs. The failure agent is a model if it has learned."""
    t, measured = summary.iteration, _measured(summary)
    if not measured:
        return None
    rows, pairs = Paths.pairs(t) / "failure/metrics.jsonl", Paths.pairs(t) / "pairs.jsonl"
    steps = _rows(rows) if rows.exists() else []
    metrics = [(t, measured), *((int(row["step"]), _prefixed("failure agent/", row)) for row in steps)]
    figures = {name: measured[name] for name in OF_FAILURE if name in measured}
    details = partial(_model, FAILURE, t + 1, Paths.failure(t + 1), figures) if steps else Details
    datasets = [(Paths.tasks(t), "rehearsal"), (pairs, "pairs")]
    return _record(summary, [file, rows, pairs], metrics=metrics, datasets=datasets, details=details)


def _generate(summary: StageSummary, file: Path) -> TrackedRun | None:
    """None without a generator, which is a model if it has learned."""
    t, measured = summary.iteration, _measured(summary)
    if not measured:
        return None
    known = curve(f"generate/{t}") if measured["generator steps"] else {}
    metrics = [(t, measured), *((step, _prefixed("generator ", row)) for step, row in known.items())]
    path = Paths.generator(t + 1)
    details = partial(_model, GENERATOR, t + 1, path, measured) if measured["generator steps"] else Details
    datasets = [(Paths.generations(t), "generations")]
    return _record(summary, [file, Paths.specs(t)], metrics=metrics, datasets=datasets, details=details)


def _evaluate(summary: StageSummary, file: Path) -> TrackedRun:
    t = summary.iteration
    folder, last = Paths.evaluation(t), seconds().get(f"evaluate/{t}")
    panels = {
        name: parse(PanelMetrics, values, f"{folder}: {name}")
        for name, values in read_json(folder / "metrics.json").items()
    }
    figures: dict[str, float] = {}
    for panel, result in panels.items():
        figures |= {f"{panel}/{key}": getattr(result, key) for key in ("success", "score", "turns")}
        # MLflow takes neither sign
        several = {name.replace("@", "_at_").replace("^", "_every_"): value for name, value in result.several.items()}
        figures |= {f"{panel}/{name}": value for name, value in several.items()}
        if result.tokens_per_success is not None:
            figures[f"{panel}/tokens_per_success"] = result.tokens_per_success
    solved = sum(result.success * result.episodes for result in panels.values())
    if last is not None and solved:
        figures["seconds_per_success"] = last / solved
    outcomes = folder / OUTCOMES
    files = [Path(f"data/panels/{panel}.jsonl") for panel in dict.fromkeys(name.partition(".")[0] for name in panels)]
    return _record(
        summary,
        [outcomes, folder / "metrics.json"],
        metrics=[(t, figures)],
        datasets=[(path, "evaluation") for path in files if path.exists()],
        artifacts=[outcomes],
        details=partial(_evaluated, t, panels, files),
    )


def _evaluated(t: int, panels: Mapping[str, PanelMetrics], files: list[Path]) -> Details:
    """The policy, its episodes at some tasks of the first panel, and the tasks of all panels."""
    kept = scratch() / "episodes" / f"{policy_hash(Paths.policy(t))}.parquet"
    episodes = [replace(one, iteration=t) for one in read_trajectories(kept)] if kept.exists() else []
    failed = {one.task_id: one.trajectory_id for one in reversed(episodes) if not is_success(one.score)}
    results = ", ".join(
        f"{markdown(name)} {one.success:.2f} ({one.low:.2f} to {one.high:.2f}, {one.tasks} tasks)"
        for name, one in panels.items()
    )
    told = f"{Paths.policy(t)} at iteration {t}: {results}. Fetch it: coevolve export policy --iteration {t} --out DIR"
    tasks = sum(one.tasks for one in panels.values())
    figures = {name: one.success for name, one in panels.items()}
    model = Model(POLICY, t, Paths.policy(t), figures, told, tasks)
    traces = [Trace(one, panel=next(iter(panels))) for one in episodes]
    return Details(model, traces, [path for path in files if path.exists()], failed)


def _pipeline(params: Params, summary: Summary, stages: list[TrackedRun]) -> TrackedRun:
    """The whole loop, with all parameters that its stages ran with."""
    settings: dict[str, Any] = {}
    for file in sorted(Path("data/code").glob("*.json")):
        settings |= _params(file.stem)
    files = [path for name in ("table.txt", "index.html", "curve.svg") if (path := Paths.report / name).exists()]
    return TrackedRun(
        "pipeline",
        file_hash(SUMMARY),
        {"seed": summary.seed, "environment": summary.environment, **settings},
        [(0, totals(summary)), *enumerate(by_iteration(summary, seconds()))],
        partial(_whole, params, summary),
        [(Paths.tasks(summary.last), "result")],
        [SUMMARY, *files],
        {"coevolve.run": summary.run, "coevolve.arithmetic": summary.arithmetic},
        stages,
    )


def _whole(params: Params, summary: Summary) -> Details:
    """The weakest episodes, the last tasks with the failures that they grew from, and the challenge of the best policy."""
    weakest, best = weak(summary, params.report.traces), summary.champion.policy
    rule = ChampionRule(
        summary.champion.panel,
        params.report.max_regressions,
        params.evaluate.bootstrap,
        params.evaluate.confidence,
        params.seed,
    )
    traces = [Trace(one.trajectory, one.kinds) for one in weakest]
    challenge = gate(best, policy_hash(Paths.policy(best)), rule)
    return Details(None, traces, [Paths.tasks(summary.last)], origins(weakest), challenge)


def _model(name: str, t: int, path: Path, figures: Mapping[str, float]) -> Details:
    numbers = ", ".join(f"{markdown(figure)} {value:.2f}" for figure, value in figures.items())
    return Details(Model(name, t, path, figures, f"{path} at iteration {t}: {numbers}"))


def _measured(summary: StageSummary) -> dict[str, float]:
    return {name: float(value) for name, value in summary.figures.items() if value is not None}


def _rows(path: Path) -> list[Mapping[str, Any]]:
    return [row for _, row in read_jsonl_objects(path)]


def _prefixed(prefix: str, row: Mapping[str, Any]) -> dict[str, float]:
    return {f"{prefix}{name}": value for name, value in row.items()}


OF_FAILURE = ("closeness of the failure agent", FAILURE_IDLE)
KINDS: dict[str, Callable[[StageSummary, Path], TrackedRun | None]] = {
    "warm": _warm,
    "pairs": _pairs,
    "train": _train,
    "generate": _generate,
    "evaluate": _evaluate,
}
