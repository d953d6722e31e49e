"""Grow verified tasks from the rollouts of any trainer: the loop without the trainer, for one iteration.

``grow`` makes a project in a folder, with the learner `import`, and runs the stages there, each by its `main`, in the order of
dvc.yaml. It needs neither DVC nor a params.yaml of the person. As in DVC, a stage runs again only if its dependencies changed,
and a run that was killed goes on. The same inputs give the same bytes, except for the time of day in Great Expectations' pages.
"""

import inspect
import io
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir, redirect_stdout, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError, install
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import read_json, read_jsonl, read_tasks, write_json, write_jsonl, write_text
from coevolve.core.paths import Paths
from coevolve.core.pipeline import PipelineStep, of_project, resource, steps
from coevolve.core.plugins import is_place, plugins
from coevolve.core.records import Signal, Verdict
from coevolve.core.scratch import alone
from coevolve.core.section import put
from coevolve.core.task import Task
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.environments.row_environment import RowEnvironment
from coevolve.environments.sources import GROUP
from coevolve.policies.config import ROOMY
from coevolve.rollouts.foreign_trajectories import RolloutAccount, trajectories
from coevolve.rollouts.import_learner import Import
from coevolve.rollouts.rollout_formats import Source, read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options
from coevolve.rollouts.row_tasks import OTHERWISE, RowMatch, solved_rows
from coevolve.stages.schema import PARAMS, Params, parse
from coevolve.stages.validate.config import LIMITS
from coevolve.stages.verify.candidates import Tasks, tasks_of
from coevolve.stages.verify.library import Library

Say = Callable[[str], object]
LEFT_OUT = ("", "code", "base", "warm", "replay", "evaluate")  # stages that need a policy; `code` runs first, each time
SILENT = ("tasks", "generator", "pairs", "generate")  # stages that are idle unless params say otherwise
CANDIDATES, EXPLORATIONS = 3, 6  # per task to keep, as in the loop's defaults: 384 and 768 for 128


@dataclass(frozen=True)
class Grown:
    """The result: ``tasks`` to train on, a verdict for each candidate, and the ``signals`` behind them.

    ``notes`` say what the rollouts do not record and what was left out. ``folder`` is the project.
    """

    folder: Path
    tasks: list[Task]
    verdicts: list[Verdict]
    signals: list[Signal]
    notes: list[str]


def grow(
    rollouts: Source,
    environment: str,
    *,
    known: Tasks | None = None,
    panels: Mapping[str, Tasks] | None = None,
    out: str | Path = "grown",
    count: int = 200,
    params: Mapping[str, Any] | None = None,
    say: Say = lambda line: None,
) -> Grown:
    """Grow at most ``count`` tasks of ``environment`` from ``rollouts`` (files, folders or globs) in the folder ``out``.

    ``known`` are the tasks that the rollouts are about, by default the environment's own training tasks. For a class that a
    trainer plays they are its data set. No new task overlaps a panel of the environment, or one of ``panels``. ``params`` are
    further parameters by dotted key, such as `{"signals.window": 3}`.
    """
    if find_spec("great_expectations") is None:  # validation is one of the last stages
        raise CoevolveError(
            f"grow validates its tasks with Great Expectations, which is not installed; run `{install('train')}`"
        )
    place = _place(environment)
    world = make(place)
    given = _params(place, count, dict(params or {}))
    section = parse(given, "-S")
    if not isinstance(section.learner, Import):
        raise CoevolveError(f"-S train.learner={section.train.learner}: grow imports rollouts, and trains nothing")
    files = [file.resolve() for file in rollout_files(rollouts, section.learner.format)]
    known_tasks, notes = _known(world, known, files, given, section)
    if not known_tasks:
        raise CoevolveError("--known: no tasks; expected the tasks that the rollouts are about")
    held_out = {name: tasks_of(panel, world.name) for name, panel in (panels or {}).items()}
    if empty := [name for name, tasks in held_out.items() if not tasks]:
        raise CoevolveError(f"--panel {empty[0]}: no tasks; expected evaluation tasks, which no new task may overlap")
    _check_apart(world, known_tasks if known is not None else [], held_out, section)
    folder = Path(out).resolve()
    with (
        alone(folder / ".lock", f"{folder}: another process works here; wait for it, or use another --out"),
        chdir(folder),
    ):
        files_of = {"known": known_tasks, **{f"panel-{name}": tasks for name, tasks in held_out.items()}}
        for name, tasks in files_of.items():
            write_jsonl(Path(f"{name}.jsonl"), tasks)
        if isinstance(world, RowEnvironment):
            given["environment"] = f"{place.partition('@')[0]}@{folder / 'known.jsonl'}"
        given["train"] |= {"rollouts": list(map(str, files))}
        given["tasks"] |= {"known": "known.jsonl", "seed_tasks": len(known_tasks)}
        given["tasks"] |= {"panels": {name: f"panel-{name}.jsonl" for name in held_out}}
        write_text(PARAMS, json.dumps(given, indent=2) + "\n")
        write_text(Path("dvc.yaml"), of_project(resource("dvc.yaml").read_text(encoding="utf-8")))
        for note in notes:
            say(f"known: {note}")
        notes += _run(parse(given, str(PARAMS)), say)
        tasks = [task for task in read_tasks(Paths.tasks(1)) if task.provenance is not None]
        write_jsonl(Path("tasks.jsonl"), tasks)
        verdicts = read_jsonl(Paths.verified(0) / "verdicts.jsonl", Verdict)
        grown = Grown(folder, tasks, verdicts, read_jsonl(Paths.signals(0), Signal), notes)
    say(f"{len(tasks)} new tasks of {len({task.family for task in tasks})} families in {Path(out) / 'tasks.jsonl'}")
    return grown


def _place(environment: str) -> str:
    """The ``environment`` as another folder finds it: the file that it is in, if it is in one here."""
    point = plugins(GROUP).get(environment)
    place = point.value if point else environment
    path, _, maker = place.partition(":")
    file = Path(path if path.endswith(".py") else f"{path}.py")
    return f"{file.resolve()}:{maker}" if is_place(place) and file.is_file() else environment


def _params(environment: str, count: int, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the project, of which ``given`` has some by dotted key."""
    if count < 1:
        raise CoevolveError("--count: expected 1 or more")
    if (policy := given.get("verify.policy")) is not None and "://" not in str(policy):
        if not Path(policy).is_dir():
            raise CoevolveError(
                f"verify.policy: {policy}: no such folder; expected a model directory or http://HOST/v1"
            )
        given = {**given, "verify.policy": str(Path(policy).resolve())}
    values: dict[str, Any] = {
        "environment": environment,
        "iterations": [{"t": 0, "next": 1}],
        "tasks": {},
        "policy": {**ROOMY},
        "train": {"learner": "import"},
        "explore": {"explorations": EXPLORATIONS * count},
        "synthesize": {"count": CANDIDATES * count},
        "verify": {"select": {"keep": count}},
        # limits warn, as the person decides what to train on
        "validate": {name: {"critical": None} for name in LIMITS},
    }
    values["validate"]["tasks"] = {"limit": 1, "critical": 1}
    if "verify.policy" not in given:
        values["verify"]["select"]["variety"] = 1.0  # without pass rates all tasks are worth the same
    put(values, given)
    return values


def _known(
    world: Environment, known: Tasks | None, files: Sequence[Path], given: dict[str, Any], params: Params
) -> tuple[list[Task], list[str]]:
    """The tasks that the rollouts of ``files`` are about, and notes on rows that became none.

    If ``known`` are rows, the references come from the rollouts, and ``given`` gets the reward from which a rollout succeeds.
    """
    if not isinstance(world, RowEnvironment):
        return tasks_of(known, world.name) if known is not None else list(world.tasks(params.tasks.split)), []
    if known is None:
        raise CoevolveError(
            f"--known is missing: name the data set that {world.kind.__name__}.reset gets its rows from (JSONL, Parquet, or a "
            "folder of `datasets`). A class that draws its own tasks has none, so its rollouts cannot be replayed"
        )
    tasks = world.tasks_in(Path(known)) if isinstance(known, str | Path) else tasks_of(known, world.name)
    if any(task.calls for task in tasks):
        return tasks, []
    learner = params.learner
    assert isinstance(learner, Import)
    account, options = RolloutAccount(), Options(learner.reward)
    match = RowMatch(world, tasks)
    found = trajectories(read_rollouts(files, options, learner.format), match, account, world.tools())
    found = account.some(found, str(files[0]), options.remarks)
    try:
        solved = solved_rows(world, {task.task_id: task for task in tasks}, found, learner.threshold)
    except CoevolveError as error:
        raise CoevolveError("; ".join([str(error), *_otherwise(account)])) from None
    given.setdefault("import", {})["threshold"] = solved.full
    return solved.tasks, solved.notes + _otherwise(account)


def _otherwise(account: RolloutAccount) -> list[str]:
    """A line about rollouts that the class answers otherwise."""
    found = account.reasons.get(OTHERWISE)
    return [f"{OTHERWISE}: {found[0]} rollouts, left out (first: {found[1]})"] if found else []


def _check_apart(world: Environment, known: Iterable[Task], panels: Mapping[str, list[Task]], params: Params) -> None:
    """Raise a CoevolveError if ``known`` tasks are of a panel."""
    known, own = list(known), {name: list(world.tasks(name)) for name in world.panels}
    library = Library([], {**own, **panels}, params.verify.near_duplicate)
    if shared := [panel for task in known if (panel := library.panel_of(task, world))]:
        raise CoevolveError(
            f"--known: {len(shared)} of {len(known)} tasks are of the panel {shared[0]}, whose failures must not "
            "guide training; name the tasks that you trained on"
        )


def _run(params: Params, say: Say) -> list[str]:
    """Run the stages in this folder, in order. Returns the notes on the rollouts."""
    _main("code", None, params)
    notes: list[str] = []
    for step in steps(params.iterations):
        if step.stage in LEFT_OUT:
            continue
        file = Path("scratch/grow") / f"{step.stage}.json"
        key, done = _key(step), dict[str, Any]()
        with suppress(CoevolveError):  # the note does not exist yet, or a crash damaged it
            done = read_json(file)
        again = done.get("key") != key or not all(Path(out).exists() for out in done["outs"])
        if again:
            file.unlink(missing_ok=True)
            for out in map(Path, step.outs):
                shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
            lines = _main(step.stage, step.t, params)
            done = {"key": key, "lines": lines, "outs": [out for out in step.outs if Path(out).exists()]}
            write_json(file, done)
        for line in done["lines"] if step.stage not in SILENT else ():
            say(f"{step.stage}{'' if again else ' (done before)'}: {line}")
        notes += done["lines"][1:] if step.stage == "train" else []
    return notes


def _key(step: PipelineStep) -> str:
    """A hash of all that a stage depends on. Its digest in data/code has its code, parameters and files outside."""
    deps = {dep: path for dep in step.deps if (path := Path(dep)).exists()}
    return content_hash({dep: policy_hash(path) if path.is_dir() else file_hash(path) for dep, path in deps.items()})


def _main(stage: str, t: int | None, params: Params) -> list[str]:
    """Run a stage. Returns the lines that it prints."""
    main = import_module(f"coevolve.stages.{stage}.stage").main
    printed = io.StringIO()
    with redirect_stdout(printed):
        main(*((params, t) if len(inspect.signature(main).parameters) == 2 else (params,)))
    return [line for line in printed.getvalue().splitlines() if line.strip()]
