"""The follower: what the files of this project hold, and a tracker lacks, is logged.

Files are the truth, and trackers mirror them. A run has the tags `coevolve.key` (`train/0`) and `coevolve.files`, a hash of the
files that it mirrors. So a tracker that was down, a new store, or a clone after `dvc pull` gets every run once. No failure of a
tracker fails a stage: it is one line.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from coevolve.core.champion import ChampionRule, challenge
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import parse, read_json, read_jsonl_objects
from coevolve.core.outcomes import OUTCOMES, PanelMetrics
from coevolve.core.paths import Paths
from coevolve.core.pipeline import PipelineStep, settled, steps
from coevolve.core.programs import git
from coevolve.core.scratch import in_turn, scratch
from coevolve.core.section import dotted
from coevolve.core.stage_seconds import curve, listeners, seconds
from coevolve.core.stage_summary import StageSummary
from coevolve.core.success import is_success
from coevolve.core.trajectories import read_trajectories
from coevolve.core.untrusted import markdown
from coevolve.stages.report.run_summary import SUMMARY, Summary
from coevolve.stages.report.tables import by_iteration, totals
from coevolve.stages.report.write import origins, weak
from coevolve.stages.schema import Params
from coevolve.tracking.record import FAILURE, GENERATOR, POLICY, Model, Result, TrackedRun, Tracker, signal_tags
from coevolve.tracking.refusals import remedy, said

LATER = "`coevolve track` sends what it lacks when it answers"

Figures = Mapping[str, float]


def follow(params: Params) -> tuple[int, list[str]]:
    """Log what the trackers lack. Returns the number of new runs, and a line per failure."""
    if name := _applied():
        os.environ.setdefault("DVC_EXP_NAME", name)
    return _follow(trackers(params), params)


def _follow(followers: Sequence[Tracker], params: Params, done: str = "") -> tuple[int, list[str]]:
    """``done`` is the stage that ends here: DVC notes it later."""
    new, failures = 0, dict[str, None]()
    with in_turn(scratch() / ".follow.lock"):  # stages that end at the same time would log a run twice
        for tracker in followers:
            for result in results(params, done):
                try:
                    if not tracker.has(result.key, result.files) and (run := result.read()):
                        tracker.log(result.key, result.files, run)
                        new += 1
                except CoevolveError as error:  # a file of another version of coevolve
                    failures[f"{tracker.name} does not get {result.key}: {error}"] = None
                except Exception as error:
                    failures[_failure(tracker, error)] = None
                    if not remedy(error):  # it does not answer
                        break
    return new, list(failures)


@contextmanager
def following(params: Params, key: str) -> Iterator[None]:
    """Log the steps of the stage ``key`` while it runs, and its files after it."""
    followers = trackers(params)
    live = list(followers)
    told: set[str] = set()

    def hear(step: int, figures: Mapping[str, float]) -> None:
        _each(live, lambda tracker: tracker.live(key, step, figures), told)

    listeners.append(hear)
    try:
        yield
    except BaseException as error:
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        _each(live, lambda tracker: tracker.leave(key, status), told)
        raise
    finally:
        listeners.remove(hear)
    if _idle(key):  # to ask MLflow takes seconds; the next stage with figures catches up
        return
    for line in _follow(followers, params, key)[1]:
        if _cause(line) not in told:
            print(line)
    _each(live, lambda tracker: tracker.leave(key, "FINISHED"), told)  # an equal result has a run already


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
            line = _failure(tracker, error)
            told.add(_cause(line))
            print(line)


def _cause(line: str) -> str:
    """A failure without its details: a server that dies closes a connection first, and then refuses the next one."""
    return line.partition(" (")[0]


def _failure(tracker: Tracker, error: Exception) -> str:
    return f"{tracker.name} {said(error)}; {remedy(error) or LATER}"


def results(params: Params, done: str = "") -> Iterator[Result]:
    """The results that the files of this project hold, in the order of the loop, the pipeline's last.

    A result that `dvc repro` will replace is left out: the parameters that it had are no longer here.
    """
    standing = settled()
    found: list[Result] = []
    whole = done in ("", "report")
    for step in steps(params.iterations):
        if standing is not None and step.label != done and not standing.issuperset(step.outs):
            whole = False
        elif step.stage in RUNS and (step.stage != "train" or params.trains):  # another trainer has its own curve
            outs = [Path(out) for out in step.outs if out.startswith(("data/", "evaluations/"))]  # no model
            files = [path for path in outs if path.exists()]
            if Paths.summary(step.t or 0, step.stage) in files:
                identity = content_hash([policy_hash(path) if path.is_dir() else file_hash(path) for path in files])
                found.append(Result(step.label, identity, partial(_stage, step)))
                yield found[-1]
    if SUMMARY.exists() and params.trains and whole:
        settings: dict[str, Any] = {}
        for code in sorted(Path("data/code").glob("*.json")):
            settings |= _params(code.stem)
        identity = content_hash([file_hash(SUMMARY), settings])  # an experiment may change parameters and no result
        yield Result("pipeline", identity, partial(_pipeline, params, settings, found))


def _params(stage: str) -> dict[str, Any]:
    """The parameters that ``stage`` ran with, by its digest."""
    file = Paths.code(stage)
    return dotted(read_json(file)["params"]) if file.exists() else {}


def _figures(file: Path) -> Figures:
    """The figures of a stage's summary. There are none if the stage had nothing to do."""
    summary = parse(StageSummary, read_json(file), str(file))
    return {name: float(value) for name, value in summary.figures.items() if value is not None}


def _idle(key: str) -> bool:
    """Whether the stage ``key`` had nothing to do."""
    stage, _, t = key.partition("/")
    file = Paths.summary(int(t or 0), stage)
    return file.exists() and not _figures(file)


def _stage(step: PipelineStep) -> TrackedRun | None:
    """The run of a stage; None if the stage had nothing to do."""
    t = step.t or 0
    figures = _figures(Paths.summary(t, step.stage))
    if not figures:
        return None
    environment = read_json(Paths.environment)["name"] if Paths.environment.exists() else ""
    settings = {**_params(step.stage), "iteration": t, "environment": environment}
    return replace(RUNS[step.stage](t, figures), params=settings, seconds=seconds().get(step.label, 0.0))


def _warm(t: int, figures: Figures) -> TrackedRun:
    return TrackedRun([(t, figures), *curve("warm")])


def _train(t: int, figures: Figures) -> TrackedRun:
    rows = _rows(Paths.data(t) / "train_metrics.jsonl")
    return TrackedRun([(t, figures), *rows], datasets=[(Paths.tasks(t), "training")])


def _pairs(t: int, figures: Figures) -> TrackedRun:
    rows = _rows(Paths.pairs(t) / "failure/metrics.jsonl", "failure agent/")
    datasets = [(Paths.tasks(t), "rehearsal"), (Paths.pairs(t) / "pairs.jsonl", "pairs")]
    model = _model(FAILURE, t + 1, Paths.failure(t + 1), figures) if rows else None
    return TrackedRun([(t, figures), *rows], datasets=datasets, model=model)


def _generate(t: int, figures: Figures) -> TrackedRun:
    rows = [(step, _prefixed("generator ", row)) for step, row in curve(f"generate/{t}")]
    model = _model(GENERATOR, t + 1, Paths.generator(t + 1), figures) if figures.get("generator steps") else None
    return TrackedRun([(t, figures), *rows], datasets=[(Paths.generations(t), "generations")], model=model)


def _model(name: str, t: int, path: Path, figures: Figures) -> Model:
    numbers = ", ".join(f"{markdown(figure)} {value:.2f}" for figure, value in figures.items())
    return Model(name, t, path, figures, f"{path} at iteration {t}: {numbers}")


def _rows(path: Path, prefix: str = "") -> list[tuple[int, Figures]]:
    """The rows of a curve, by step."""
    rows = read_jsonl_objects(path) if path.exists() else ()
    return [(int(row["step"]), _prefixed(prefix, row)) for _, row in rows]


def _prefixed(prefix: str, row: Mapping[str, Any]) -> dict[str, float]:
    return {f"{prefix}{name}": value for name, value in row.items()}


def _evaluate(t: int, figures: Figures) -> TrackedRun:
    """The policy, its episodes at some tasks of the first panel, and the tasks of all panels."""
    outcomes, measures = Paths.evaluation(t) / OUTCOMES, Paths.evaluation(t) / "metrics.json"
    panels = {name: parse(PanelMetrics, values, f"{measures}: {name}") for name, values in read_json(measures).items()}
    measured: dict[str, float] = {}
    for panel, result in panels.items():
        measured |= {f"{panel}/{key}": getattr(result, key) for key in ("success", "score", "turns")}
        # MLflow takes neither sign
        several = {name.replace("@", "_at_").replace("^", "_every_"): value for name, value in result.several.items()}
        measured |= {f"{panel}/{name}": value for name, value in several.items()}
        if result.tokens_per_success is not None:
            measured[f"{panel}/tokens_per_success"] = result.tokens_per_success
    solved, took = sum(result.success * result.episodes for result in panels.values()), seconds().get(f"evaluate/{t}")
    if took and solved:
        measured["seconds_per_success"] = took / solved
    kept = scratch() / "episodes" / f"{policy_hash(Paths.policy(t))}.parquet"
    episodes = [replace(one, iteration=t) for one in read_trajectories(kept)] if kept.exists() else []
    told = ", ".join(
        f"{markdown(name)} {one.success:.2f} ({one.low:.2f} to {one.high:.2f}, {one.tasks} tasks)"
        for name, one in panels.items()
    )
    known = [Paths.panel(panel) for panel in dict.fromkeys(name.partition(".")[0] for name in panels)]
    files = [path for path in known if path.exists()]
    return TrackedRun(
        [(t, {**figures, **measured})],
        datasets=[(path, "evaluation") for path in files],
        artifacts=[outcomes],
        model=Model(
            POLICY,
            t,
            Paths.policy(t),
            {name: one.success for name, one in panels.items()},
            f"{Paths.policy(t)} at iteration {t}: {told}. Fetch it: coevolve export policy --iteration {t} --out DIR",
            sum(one.tasks for one in panels.values()),
        ),
        traces=[(one, {"policy": str(Paths.policy(t)), "panel": next(iter(panels))}) for one in episodes],
        tasks=files,
        sources={one.task_id: one.trajectory_id for one in reversed(episodes) if not is_success(one.score)},
    )


def _pipeline(params: Params, settings: Mapping[str, Any], stages: Sequence[Result]) -> TrackedRun:
    """The whole loop, with all parameters that its stages ran with.

    It has the weakest episodes, the last tasks with the failures that they grew from, and the challenge of the best policy.
    """
    summary = parse(Summary, read_json(SUMMARY), str(SUMMARY))
    weakest, best = weak(summary, params.report.traces), summary.champion.policy
    rule = ChampionRule(
        summary.champion.panel,
        params.report.max_regressions,
        params.evaluate.bootstrap,
        params.evaluate.confidence,
        params.seed,
    )
    files = [path for name in ("table.txt", "index.html", "curve.svg") if (path := Paths.report / name).exists()]
    return TrackedRun(
        [(0, totals(summary)), *enumerate(by_iteration(summary, seconds()))],
        {"seed": summary.seed, "environment": summary.environment, **settings},
        tags={"coevolve.run": summary.run, "coevolve.arithmetic": summary.arithmetic},
        datasets=[(Paths.tasks(summary.last), "result")],
        artifacts=[SUMMARY, *files],
        traces=[
            (one.trajectory, {"policy": str(Paths.policy(one.trajectory.iteration)), **signal_tags(one.kinds)})
            for one in weakest
        ],
        tasks=[Paths.tasks(summary.last)],
        sources=origins(weakest),
        children=stages,
        challenge=challenge(policy_hash(Paths.policy(best)), Paths.evaluation(best) / OUTCOMES, rule),
    )


def _applied() -> str:
    """The experiment that `dvc exp apply` put into this folder; empty if the folder has other results since then."""
    experiment = git("rev-parse", "--verify", "refs/exps/exec/EXEC_APPLY")
    if not experiment or git("rev-parse", f"{experiment}:./dvc.lock") != git("hash-object", "dvc.lock"):
        return ""
    names = git("for-each-ref", "--points-at", experiment, "--format=%(refname)", "refs/exps/*/*/*").split()
    return names[0].rpartition("/")[2] if names else ""


RUNS = {"warm": _warm, "pairs": _pairs, "train": _train, "generate": _generate, "evaluate": _evaluate}
