"""Grow verified tasks from the rollouts of any trainer: signals, exploration, synthesis, verification, selection.

The steps are the functions of the stages with the same names. They need no DVC and no params.yaml. The same inputs give
the same bytes, except for Great Expectations' pages in data_docs, which hold the time of day. After a kill, the finished
steps and all paid replies are kept in ``work``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.code_closure import code_of
from coevolve.core.errors import CoevolveError, install
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.interruptions import hopeless
from coevolve.core.io import read_json, read_jsonl, read_tasks, write_json, write_jsonl
from coevolve.core.progress import bar
from coevolve.core.records import Exploration, Signal, Verdict
from coevolve.core.scratch import alone
from coevolve.core.task import Task
from coevolve.core.trajectories import read_trajectories, stream_trajectories
from coevolve.core.untrusted import one_line
from coevolve.core.workers import local
from coevolve.endpoint.spending import metered
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import identity
from coevolve.environments.registry import make
from coevolve.policies.endpoint_policy import EndpointPolicy
from coevolve.policies.loading import playing
from coevolve.policies.policy import Policy, Replicas
from coevolve.rollout import Limits
from coevolve.rollouts.foreign_trajectories import RolloutAccount, trajectories
from coevolve.rollouts.grow_options import ACTING, CANDIDATES, GrowOptions
from coevolve.rollouts.grow_page import lineage, page
from coevolve.rollouts.match_tasks import TaskMatch
from coevolve.rollouts.rollout_formats import Source, lacking, read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options
from coevolve.stages.explore.explorer import carry_out, plan
from coevolve.stages.signals.extract import extract
from coevolve.stages.signals.table import open_table
from coevolve.stages.synthesize.synthesizer import candidates_of, wording
from coevolve.stages.validate.config import Floor, Validate
from coevolve.stages.validate.validation import validate
from coevolve.stages.verify.candidates import Tasks, tasks_of
from coevolve.stages.verify.judge import (
    Judged,
    PassCount,
    accepted,
    causes,
    interruptions,
    read_lines,
    unchecked,
    verify,
)
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_rates import pass_counts, with_pass_rates
from coevolve.stages.verify.select import notes, select, solved_kinds

Say = Callable[[str], object]
Step = Callable[[], list[str]]


@dataclass(frozen=True)
class Grown:
    """The result: ``tasks`` to train on, a verdict for each candidate, and the ``signals`` behind them.

    ``notes`` say what the rollouts do not record and what was left out. ``folder`` holds all files.
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
    say: Say = lambda line: None,
    **options: Any,
) -> Grown:
    """Grow tasks of ``environment`` from ``rollouts`` (files, folders or globs) into the folder ``out``.

    ``known`` are the tasks that the rollouts are about, by default the environment's own training tasks. No new task
    overlaps ``panels``, by default the environment's own. ``options`` are the fields of ``GrowOptions``.
    """
    chosen = GrowOptions(**options)
    if find_spec("great_expectations") is None:  # validation is the last step
        raise CoevolveError(
            f"grow validates its tasks with Great Expectations, which is not installed; run `{install('train')}`"
        )
    world = make(environment)
    files = rollout_files(rollouts, chosen.format)
    known_tasks = tasks_of(known, world.name) if known is not None else list(world.tasks("seed"))
    if not known_tasks:
        raise CoevolveError("--known: no tasks; expected the tasks that the rollouts are about")
    held_out = {name: tasks_of(panel, world.name) for name, panel in (panels or {}).items()}
    if empty := [name for name, tasks in held_out.items() if not tasks]:
        raise CoevolveError(f"--panel {empty[0]}: no tasks; expected evaluation tasks, which no new task may overlap")
    if panels is None:
        held_out = {name: list(world.tasks(name)) for name in world.panels}
    if known is not None:
        library = Library([], held_out, chosen.verify.near_duplicate)
        if shared := [panel for task in known_tasks if (panel := library.panel_of(task, world))]:
            raise CoevolveError(
                f"--known: {len(shared)} of {len(known_tasks)} tasks are of the panel {shared[0]}, whose failures must not "
                "guide training; name the tasks that you trained on"
            )
    folder = Path(out)
    busy = f"{folder / 'work'}: another process works here; wait for it, or use another --out"
    with alone(folder / "work" / ".lock", busy):
        growth = _Growth(environment, world, known_tasks, held_out, chosen, folder)
        key = content_hash(
            [
                environment,
                identity(world),
                [[str(file), file_hash(file)] for file in files],
                # ids do not suffice, because ids in files of users need not be content hashes
                [asdict(task) for task in known_tasks],
                {name: [asdict(task) for task in tasks] for name, tasks in held_out.items()},
                asdict(chosen),
                policy_hash(Path(chosen.policy)) if chosen.policy is not None and not chosen.served else None,
                code_of(Path(__file__).resolve()),
            ]
        )
        return growth.run(partial(growth.read, files), key, say)


@dataclass
class _Growth:
    """One run of the steps in ``folder``. A step writes files and returns lines for the user. ``place`` makes the ``world``."""

    place: str
    world: Environment
    known: list[Task]
    panels: dict[str, list[Task]]
    options: GrowOptions
    folder: Path

    def __post_init__(self) -> None:
        self.work = self.folder / "work"

    def run(self, read: Step, key: str, say: Say) -> Grown:
        """Do the steps in order. Skip a step if its files exist and its note has the same ``key``."""
        out, work = self.folder, self.work
        torn = ".*.[0-9]*.tmp"  # files of a process that was killed while it wrote
        for file in [*out.glob(torn), *work.glob(torn)]:
            file.unlink()
        steps: dict[str, tuple[Step, list[Path]]] = {
            "read": (read, [work / "trajectories.parquet", out / "skipped.jsonl"]),
            "signals": (self.find_signals, [out / "signals.jsonl"]),
            "explore": (self.explore, [work / "explorations.jsonl"]),
            "synthesize": (self.synthesize, [work / "candidates.jsonl"]),
            "verify": (self.verify, [work / "accepted.jsonl", work / "verdicts.jsonl"]),
            "select": (self.select, [out / "validation", out / "verdicts.jsonl", out / "tasks.jsonl"]),
        }
        told: dict[str, list[str]] = {}
        for name, (step, files) in steps.items():
            note = work / f"{name}.json"
            noted: dict[str, Any] = {}
            with suppress(CoevolveError):  # the note does not exist yet, or a crash damaged it
                noted = read_json(note)
            done = noted.get("key") == key and all(file.exists() for file in files)
            if not done:
                note.unlink(missing_ok=True)  # the step replaces files, so a kill within it must not leave the old note
                noted = {"key": key, "lines": step()}
                write_json(note, noted)
            told[name] = noted["lines"]
            for line in told[name]:
                say(f"{name}{' (done before)' if done else ''}: {line}")
        from pyarrow.parquet import read_metadata

        signals = self.signals()
        verdicts, tasks = read_jsonl(out / "verdicts.jsonl", Verdict), read_tasks(out / "tasks.jsonl")
        line, *notes = [*told["read"], *(note for step in ("signals", "explore", "verify") for note in told[step][1:])]
        facts = {"line": line, "notes": notes, "rollouts": read_metadata(work / "trajectories.parquet").num_rows}
        lineage(out, tasks, self.explorations(), signals, verdicts)
        page(out, self.world.name, self.known, facts, self.options.policy)
        return Grown(out, tasks, verdicts, signals, notes)

    def read(self, files: Sequence[Path]) -> list[str]:
        account, remarks = RolloutAccount(), dict[str, int]()
        size = sum(file.stat().st_size for file in files)
        with bar(size, "read", "bytes") as progress:
            options = Options(self.options.reward, progress=progress.update, remarks=remarks)
            rows = read_rollouts(files, options, self.options.format)
            found = trajectories(rows, TaskMatch(self.known), account, self.world.tools())
            found = account.some(found, str(files[0]), remarks)
            stream_trajectories(self.work / "trajectories.parquet", found)
        write_jsonl(self.folder / "skipped.jsonl", account.skipped)
        names = ", ".join(sorted({file.name for file in files})[:3])
        line = f"{account.kept} rollouts of {len(account.tasks)} tasks in {names}{', …' if len(files) > 3 else ''}"
        return [line, *lacking(options), *account.lines(remarks)]

    def find_signals(self) -> list[str]:
        with open_table(self.work / "trajectories.parquet") as table:
            called = {tool for (tool,) in table.patterns(1)}
            signals = list(extract(table, table.last_iteration(), self.options.signals))
        write_jsonl(self.folder / "signals.jsonl", signals)
        kinds = [signal.kind for signal in signals]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in self.options.kinds)
        lines = [counts if kinds else f"{counts}; no weakness guides the exploration"]
        # a trainer may add a prefix to the names of tools
        if unknown := sorted(called - {tool["function"]["name"] for tool in self.world.tools()}):
            listed = one_line(", ".join(unknown[:5]))
            lines.append(f"tools of the rollouts that {self.world.name} does not have: {len(unknown)} ({listed})")
        return lines

    def explore(self) -> list[str]:
        signals, config = self.signals(), self.options.explore
        with open_table(self.work / "trajectories.parquet") as table:
            t = table.last_iteration()
        shown = {name for signal in signals for name in signal.trajectory_ids}
        evidence = read_trajectories(self.work / "trajectories.parquet", shown)
        planned = plan(self.world, self.known, evidence, signals, [], config, t, self.options.seed)
        with (
            bar(len(planned.requests), "explore", "explorations") as progress,
            self.meter("explore", config.explorer == "endpoint", progress) as meter,
        ):
            found, interrupted, notes = carry_out(planned, config, ACTING, meter, progress.update)
        write_jsonl(self.work / "explorations.jsonl", found)
        return [f"{len(found)} of {config.explorations} explorations found something", *interrupted, *notes]

    def synthesize(self) -> list[str]:
        config, count = self.options.synthesize, CANDIDATES * self.options.count
        with (
            bar(count, "synthesize", "candidates") as progress,
            self.meter("synthesize", config.synthesizer == "endpoint", progress) as meter,
        ):
            candidates, notes = candidates_of(
                self.world, self.known, self.explorations(), config, count, self.options.seed, meter, progress.update
            )
        write_jsonl(self.work / "candidates.jsonl", candidates)
        return [f"{len(candidates)} candidates", *notes, *wording(self.world, config)]

    def verify(self) -> list[str]:
        config = self.options.verify
        lines = read_lines(self.work / "candidates.jsonl")
        library = Library(self.known, self.panels, config.near_duplicate)
        with bar(len(lines), "verify", "candidates") as progress:
            judged = verify(self.place, lines, library, engine=local(), words=config.words, progress=progress.update)
        hopeless(causes(judged), len(judged), "candidates")
        tasks, verdicts = accepted(judged), [one.verdict for one in judged]
        write_jsonl(self.work / "accepted.jsonl", tasks)
        write_jsonl(self.work / "verdicts.jsonl", verdicts)
        counts = [f", {count} not checked by {gate}" for gate, count in sorted(unchecked(verdicts).items())]
        return [f"{len(tasks)} candidates accepted{''.join(counts)}", *interruptions(judged)]

    def select(self) -> list[str]:
        options, config, file = self.options, self.options.verify, self.folder / "tasks.jsonl"
        tasks = {task.task_id: task for task in read_tasks(self.work / "accepted.jsonl")}
        counts: dict[str, PassCount] = {}
        if options.policy is not None:
            with (
                bar(len(tasks) * options.samples, "pass rates", "episodes") as progress,
                self.policy(options.policy, progress) as policy,
            ):
                counts = pass_counts(
                    policy, self.world, list(tasks.values()), Limits.of(ACTING), options.samples, options.seed,
                    progress.update,
                )  # fmt: skip
        verdicts = read_jsonl(self.work / "verdicts.jsonl", Verdict)
        judged = [Judged(one, tasks.get(one.task_id or "") if one.accepted else None) for one in verdicts]
        judged = with_pass_rates(judged, counts)
        remarks = interruptions(judged)
        if config.select is not None:
            solved = set()
            if counts:
                with open_table(self.work / "trajectories.parquet") as table:
                    solved = solved_kinds(self.known, table.attempts())
            judged = select(judged, config.select, solved)
            remarks += notes(judged, config.select.keep, len(self.world.tools()))
        rows = [asdict(task) for task in accepted(judged)]
        held_out = {task.task_id for panel in self.panels.values() for task in panel}
        limits = Validate(tasks=Floor(limit=1, critical=1))
        validation = validate(rows, self.world, held_out, limits, self.folder / "data_docs", (), "seed", {})
        write_jsonl(self.folder / "validation/quarantine.jsonl", validation.quarantine)
        write_jsonl(self.folder / "verdicts.jsonl", (one.verdict for one in judged))
        write_jsonl(file, validation.tasks)
        count = len(validation.tasks)
        lines = [f"{count} tasks of {len(validation.families)} families in {file}", *remarks]
        if count < options.count:
            page_file = self.folder / "index.html"
            lines.append(f"{options.count} tasks were asked for; read {page_file} for what was rejected")
        return lines

    @contextmanager
    def policy(self, policy: str, progress: Any) -> Iterator[Policy | Replicas]:
        config = self.options.policy_endpoint
        if config is not None:
            log = self.work / "requests" / "policy.log.jsonl"
            with metered(config, True, self.work / "requests" / "policy", progress, log) as meter:
                assert meter.endpoint is not None
                yield EndpointPolicy(meter.endpoint, config.temperature)
            return
        with playing(Path(policy), ACTING, 1.0) as opened:
            yield opened

    def meter(self, step: str, asked: bool, progress: Any) -> Any:
        folder = self.work / "requests"
        return metered(self.options.endpoint, asked, folder / step, progress, folder / "log.jsonl")

    def signals(self) -> list[Signal]:
        return read_jsonl(self.folder / "signals.jsonl", Signal)

    def explorations(self) -> list[Exploration]:
        return read_jsonl(self.work / "explorations.jsonl", Exploration)
