"""Grow verified tasks from the rollouts of any trainer: signals, exploration, synthesis, verification, selection.

The steps are the functions of the stages with the same names. They need no DVC and no params.yaml. The same inputs give
the same bytes, except for Great Expectations' pages in data_docs, which hold the time of day. After a kill, the finished
steps and all paid replies are kept in ``work``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coevolve.core.code_digest import code_of
from coevolve.core.errors import CoevolveError, install
from coevolve.core.hashing import content_hash, file_hash, policy_hash
from coevolve.core.io import read_json, read_jsonl, read_tasks, write_json, write_jsonl
from coevolve.core.progress import bar
from coevolve.core.records import Candidate, Exploration, Signal, Verdict
from coevolve.core.scratch import alone
from coevolve.core.task import Task
from coevolve.core.trajectories import read_trajectories, stream_trajectories
from coevolve.core.untrusted import one_line
from coevolve.core.workers import local
from coevolve.endpoint.spending import metered
from coevolve.environments.environment import Environment
from coevolve.environments.fingerprint import identity
from coevolve.environments.mixture import shares_of
from coevolve.environments.registry import make
from coevolve.policies.loading import open_policy
from coevolve.policies.policy import Policy
from coevolve.policies.replicas import Replicas
from coevolve.rollout import Limits
from coevolve.rollouts.foreign_trajectories import RolloutAccount, trajectories
from coevolve.rollouts.grow_options import ACTING, CANDIDATES, GrowOptions
from coevolve.rollouts.grow_page import lineage, page
from coevolve.rollouts.grow_steps import FinishedSteps
from coevolve.rollouts.match_tasks import TaskMatch
from coevolve.rollouts.rollout_formats import Source, read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options, RolloutFormat
from coevolve.stages.explore.exploration_plan import carry_out, plan
from coevolve.stages.signals.extract import extract, task_ids
from coevolve.stages.signals.table import open_table
from coevolve.stages.synthesize.synthesizers import candidates_of
from coevolve.stages.validate.config import Validate
from coevolve.stages.validate.validation import validate, write
from coevolve.stages.verify.candidates import Tasks, tasks_of
from coevolve.stages.verify.judge import Judged, accepted, unchecked, verify
from coevolve.stages.verify.library import Library
from coevolve.stages.verify.pass_counts import PassCount
from coevolve.stages.verify.pass_rates import pass_counts, with_pass_rate
from coevolve.stages.verify.select import select

Say = Callable[[str], object]


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
    chosen.check_files()
    if find_spec("great_expectations") is None:  # validation is the last step
        raise CoevolveError(
            f"grow validates its tasks with Great Expectations, which is not installed; run `{install('train')}`"
        )
    world = make(environment)
    rows, files = rollout_files(rollouts, chosen.format)
    known_tasks = tasks_of(known, environment) if known is not None else list(world.tasks("seed"))
    if not known_tasks:
        raise CoevolveError("--known: no tasks; expected the tasks that the rollouts are about")
    held_out = {name: tasks_of(panel, environment) for name, panel in (panels or {}).items()}
    if panels is None:
        held_out = {name: list(world.tasks(name)) for name in world.panels}
    folder = Path(out)
    busy = f"{folder / 'work'}: another process works here; wait for it, or use another --out"
    with alone(folder / "work" / ".lock", busy):
        key = _key(environment, world, files, rows, known_tasks, held_out, chosen)
        growth = _Growth(environment, world, known_tasks, held_out, chosen, folder, say)
        growth.run(FinishedSteps(folder / "work", key), rows, files)
        return growth.result()


def _key(
    environment: str,
    world: Environment,
    files: Sequence[Path],
    rows: RolloutFormat,
    known: Sequence[Task],
    panels: Mapping[str, Sequence[Task]],
    options: GrowOptions,
) -> str:
    """A hash of all that the result depends on."""
    policy = Path(options.policy) if options.policy is not None and not options.served else None
    return content_hash(
        [
            environment,
            identity(world),
            rows.name,
            [[str(file), file_hash(file)] for file in files],
            _contents(known),
            {name: _contents(tasks) for name, tasks in panels.items()},
            options.plain(),
            policy_hash(policy) if policy else None,
            code_of(Path(__file__).resolve()),
        ]
    )


def _contents(tasks: Sequence[Task]) -> list[str]:
    """A hash of each task. Its id does not suffice, because ids in files of users need not be content hashes."""
    return [content_hash(asdict(task)) for task in tasks]


@dataclass
class _Growth:
    """One run of the steps in ``folder``."""

    name: str
    world: Environment
    known: list[Task]
    panels: dict[str, list[Task]]
    options: GrowOptions
    folder: Path
    say: Say
    work: Path = field(init=False)

    def __post_init__(self) -> None:
        self.work = self.folder / "work"

    def run(self, steps: FinishedSteps, rows: RolloutFormat, files: Sequence[Path]) -> None:
        out, work = self.folder, self.work
        for name, action, files_, results in (
            (
                "read",
                partial(self.read, rows, files),
                [work / "rollouts.json", out / "skipped.jsonl"],
                self.told_rollouts,
            ),
            ("signals", self.find_signals, [out / "signals.jsonl", work / "signals.json"], self.told_signals),
            ("explore", self.explore, [work / "explorations.jsonl"], self.told_explorations),
            ("synthesize", self.synthesize, [work / "candidates.jsonl"], self.told_candidates),
            ("verify", self.verify, [work / "accepted.jsonl", work / "verdicts.jsonl"], self.told_verdicts),
            ("select", self.select, [out / "tasks.jsonl", out / "verdicts.jsonl", out / "validation"], self.told_tasks),
        ):
            new = steps.do(name, action, files_)
            for line in results():
                self.say(f"{name}{'' if new else ' (done before)'}: {line}")
        lineage(self.folder, self.result().tasks, self.explorations(), self.result().signals, self.result().verdicts)
        page(self.folder, self.name, self.known, self.facts(), asdict(self.options)["policy"])

    def read(self, rows: RolloutFormat, files: Sequence[Path]) -> None:
        account, remarks = RolloutAccount(), dict[str, int]()
        size = sum(file.stat().st_size for file in files)
        with bar(size, "read", "bytes") as progress:
            options = Options(self.options.reward, progress.update, remarks)
            found = trajectories(read_rollouts(rows, files, options), TaskMatch(self.known), account)
            found = account.some(found, str(files[0]), remarks)
            stream_trajectories(self.work / "trajectories.parquet", found)
        write_jsonl(self.folder / "skipped.jsonl", account.skipped)
        notes = [f"{rows.writer}: {rows.lacks}", *account.lines(remarks)]
        names = ", ".join(sorted({file.name for file in files})[:3])
        line = f"{account.kept} rollouts of {len(account.tasks)} tasks in {names}{', …' if len(files) > 3 else ''}"
        write_json(self.work / "rollouts.json", {"line": line, "notes": notes, "rollouts": account.kept})

    def find_signals(self) -> None:
        with open_table(self.work / "trajectories.parquet") as table:
            t, notes = table.last_iteration(), self.unknown_tools(table.patterns(1))
            signals = extract(table, t, self.options.signals, task_ids(self.known, self.name))
            write_jsonl(self.folder / "signals.jsonl", signals)
        write_json(self.work / "signals.json", {"t": t, "notes": notes})

    def unknown_tools(self, counts: Mapping[tuple[str, ...], int]) -> list[str]:
        """A note about tools that the environment does not have: a trainer may add a prefix to their names."""
        tools = {tool["function"]["name"] for tool in self.world.tools()}
        unknown = sorted(name for (name,) in counts if name not in tools)
        listed = one_line(", ".join(unknown[:5]))
        return [f"tools of the rollouts that {self.name} does not have: {len(unknown)} ({listed})"] if unknown else []

    def explore(self) -> None:
        signals, t = self.signals(), int(read_json(self.work / "signals.json")["t"])
        shown = {name for signal in signals for name in signal.trajectory_ids}
        evidence = read_trajectories(self.work / "trajectories.parquet", shown)
        config, seed = self.options.explore, self.options.seed
        plans = plan(self.world, self.known, evidence, signals, [], config, t, seed)
        with (
            bar(sum(len(part.requests) for part in plans), "explore", "explorations") as progress,
            self.meter("explore", config.explorer == "endpoint", progress) as meter,
        ):
            policy = partial(open_policy, Path(self.options.policy or ""), ACTING, 1.0)
            found = carry_out(plans, config, ACTING, policy, meter, progress.update)
        write_jsonl(self.work / "explorations.jsonl", found)

    def synthesize(self) -> None:
        config, count = self.options.synthesize, CANDIDATES * self.options.count
        with (
            bar(count, "synthesize", "candidates") as progress,
            self.meter("synthesize", config.synthesizer == "endpoint", progress) as meter,
        ):
            candidates = candidates_of(
                self.world, self.known, self.explorations(), config, count, self.options.seed, meter, progress.update
            )
        write_jsonl(self.work / "candidates.jsonl", candidates)

    def verify(self) -> None:
        config = self.options.verify
        lines = (self.work / "candidates.jsonl").read_text(encoding="utf-8").splitlines()
        library = Library(self.known, self.panels, config.near_duplicate)
        with bar(len(lines), "verify", "candidates") as progress:
            judged = verify(self.name, lines, library, engine=local(), words=config.words, progress=progress.update)
        write_jsonl(self.work / "accepted.jsonl", accepted(judged))
        write_jsonl(self.work / "verdicts.jsonl", (verdict for verdict, _ in judged))

    def select(self) -> None:
        config = self.options.verify
        tasks = {task.task_id: task for task in read_tasks(self.work / "accepted.jsonl")}
        judged: list[Judged] = [
            (verdict, tasks.get(verdict.task_id or "") if verdict.accepted else None)
            for verdict in self.judged_verdicts()
        ]
        counts = self.pass_counts(list(tasks.values())) if self.options.policy is not None else {}
        judged = [with_pass_rate(verdict, task, counts) for verdict, task in judged]
        if config.select is not None:
            judged = select(judged, config.select, counts, shares_of(self.world))
        rows = [asdict(task) for task in accepted(judged)]
        docs = self.folder / "data_docs"
        validation = validate(rows, self.world, self.panels, Validate(min_rows=1), config.near_duplicate, docs)
        write(self.folder / "validation", validation, f"{self.options.count} tasks of {self.name}")
        write_jsonl(self.folder / "verdicts.jsonl", (verdict for verdict, _ in judged))
        write_jsonl(self.folder / "tasks.jsonl", validation.tasks)

    def pass_counts(self, tasks: Sequence[Task]) -> dict[str, PassCount]:
        samples = self.options.samples
        with bar(len(tasks) * samples, "pass rates", "episodes") as progress, self.policy(progress) as policy:
            return pass_counts(
                policy, self.world, tasks, Limits.of(ACTING), samples, self.options.seed, progress.update
            )

    @contextmanager
    def policy(self, progress: Any) -> Iterator[Policy | Replicas]:
        from coevolve.policies.endpoint_policy import EndpointPolicy
        from coevolve.policies.loading import playing

        config = self.options.policy_endpoint
        if config is not None:
            log = self.work / "requests" / "policy.log.jsonl"
            with metered(config, True, self.work / "requests" / "policy", progress, log) as meter:
                assert meter.endpoint is not None
                yield EndpointPolicy(meter.endpoint, config.temperature)
            return
        with playing(Path(self.options.policy or ""), ACTING, 1.0) as policy:
            yield policy

    def meter(self, step: str, asked: bool, progress: Any) -> Any:
        folder = self.work / "requests"
        return metered(self.options.endpoint, asked, folder / step, progress, folder / "log.jsonl")

    def signals(self) -> list[Signal]:
        return read_jsonl(self.folder / "signals.jsonl", Signal)

    def explorations(self) -> list[Exploration]:
        return read_jsonl(self.work / "explorations.jsonl", Exploration)

    def judged_verdicts(self) -> list[Verdict]:
        return read_jsonl(self.work / "verdicts.jsonl", Verdict)

    def facts(self) -> dict[str, Any]:
        """What a person must know about the rollouts."""
        read, found = read_json(self.work / "rollouts.json"), read_json(self.work / "signals.json")
        return {**read, "notes": [*read["notes"], *found["notes"]]}

    def told_rollouts(self) -> list[str]:
        read = read_json(self.work / "rollouts.json")
        return [read["line"], *read["notes"]]

    def told_signals(self) -> list[str]:
        kinds = [signal.kind for signal in self.signals()]
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in self.options.kinds)
        line = counts if kinds else f"{counts}; no weakness guides the exploration"
        return [line, *read_json(self.work / "signals.json")["notes"]]

    def told_explorations(self) -> list[str]:
        return [f"{len(self.explorations())} of {self.options.explore.explorations} explorations found something"]

    def told_candidates(self) -> list[str]:
        return [f"{len(read_jsonl(self.work / 'candidates.jsonl', Candidate))} candidates"]

    def told_verdicts(self) -> list[str]:
        verdicts = self.judged_verdicts()
        counts = [f", {count} not checked by {gate}" for gate, count in sorted(unchecked(verdicts).items())]
        return [f"{sum(verdict.accepted for verdict in verdicts)} candidates accepted{''.join(counts)}"]

    def told_tasks(self) -> list[str]:
        tasks = read_tasks(self.folder / "tasks.jsonl")
        lines = [
            f"{len(tasks)} tasks of {len({task.family for task in tasks})} families in {self.folder / 'tasks.jsonl'}"
        ]
        if len(tasks) < self.options.count:
            lines.append(
                f"{self.options.count} tasks were asked for; read {self.folder / 'index.html'} for what was rejected"
            )
        return lines

    def result(self) -> Grown:
        return Grown(
            self.folder,
            read_tasks(self.folder / "tasks.jsonl"),
            read_jsonl(self.folder / "verdicts.jsonl", Verdict),
            self.signals(),
            self.facts()["notes"],
        )
