"""Verify candidate tasks by the environment only: a verdict for each candidate, with the outcomes of all gates.

The reference of a synthesized task must pass from a fresh world, twice with the same result. These must fail: an agent that
does nothing, a wrong variant of the reference, and the reference without any of its calls that change the state. The
instruction must ask for every change. The task must not be a duplicate or near-duplicate, nor overlap a panel. No candidate
can raise an error here, and in workers no candidate can end the stage or hold it up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.interruptions import SHOWN, contained, counted, interrupted, named
from coevolve.core.io import missing
from coevolve.core.processes import WorkerDied, WorkerLate
from coevolve.core.records import Candidate, Gate, Verdict
from coevolve.core.stage_summary import ACCEPTED, StageSummary
from coevolve.core.task import Task
from coevolve.core.trajectories import End
from coevolve.core.untrusted import writable
from coevolve.core.workers import Engine, Workers
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.stages.verify.gates import ENVIRONMENT_GATES, GATES, environment_gates, read
from coevolve.stages.verify.library import Library, WorldChange, effect_of

SECONDS = 600.0  # limit of a worker's call: a guard against a candidate that never ends
TRIES = 2  # dead processes before a candidate is to blame: another process may have exhausted the memory
DEATHS = 16  # candidates in a row that end their processes, after which the machine is to blame
KILLS = "kills the process"


@dataclass(frozen=True, slots=True)
class PassCount:
    """Of the episodes ``played`` at a task, the number that count, and the ``successes`` among these ``episodes``.

    An episode in which the environment failed says nothing about the agent, so it does not count. ``ends`` are the ends of
    all episodes.
    """

    successes: int
    episodes: int
    played: int
    ends: Sequence[End] = field(default=(), compare=False)

    @property
    def rate(self) -> float | None:
        """The share of successes; None if no episode counts."""
        return self.successes / self.episodes if self.episodes else None


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a candidate, with its task if it is readable. It unpacks into these two.

    ``effect`` is the effect of a task that passes the environment's gates. ``count`` is the result of the policy's episodes
    at an accepted task. ``cause`` is the exception that ended the judgement, or another interruption.
    """

    verdict: Verdict
    task: Task | None = None
    effect: WorldChange | None = None
    count: PassCount | None = None
    cause: str = ""

    def __iter__(self) -> Iterator[Any]:
        yield from (self.verdict, self.task)


def accepted(judged: Iterable[Judged]) -> list[Task]:
    """The accepted tasks."""
    return [one.task for one in judged if one.verdict.accepted and one.task is not None]


def verify(
    environment: str,
    lines: Sequence[str],
    library: Library,
    *,
    engine: Engine | None = None,
    enabled: bool = True,
    words: str = "language",
    progress: Callable[[int], object] = lambda count: None,
) -> list[Judged]:
    """A verdict for each line (JSON of a Candidate or a Task), in order, with the task if it is readable.

    The workers of ``engine``, or else this process, run the environment's gates. This process runs the gates that depend
    on other tasks, in order, and adds accepted tasks to ``library``. Without ``enabled`` it skips the environment's
    gates, as an ablation. ``words`` names the rules of `words_match`, one of WORDS.
    """
    results: list[Judged] = []
    judge = Judge(environment, enabled, words)
    by_workers = _by_workers(engine, environment, words, lines) if engine is not None and enabled else None
    for one in by_workers or map(judge.judge, lines):
        verdict, task = one.verdict, one.task
        gates, causes = list(verdict.gates), [one.cause]
        if task is not None and verdict.accepted:
            _extend(gates, library.gates(task, one.effect, judge.environment), causes)
        accepted = task is not None and _passed(gates)
        if task is not None and accepted:
            library.add(task, "an accepted", one.effect)
        gates += [Gate(name, None) for name in GATES[len(gates) :]]
        verdict = replace(verdict, accepted=accepted, gates=gates)
        results.append(Judged(verdict, task, cause=causes[-1]))
        progress(1)
    return results


def _extend(gates: list[Gate], more: Iterator[Gate], causes: list[str]) -> None:
    """Append gates up to the first that fails, also by an exception, whose text joins ``causes``."""
    before = len(causes)
    with contained(causes):
        for gate in more:
            gates.append(gate)
            if gate.passed is False:
                return
    gates += [Gate(GATES[len(gates)], False, writable(cause[:SHOWN])) for cause in causes[before:]]


def _passed(gates: Sequence[Gate]) -> bool:
    return all(gate.passed is not False for gate in gates)


def _by_workers(engine: Engine, environment: str, words: str, lines: Sequence[str]) -> Iterator[Judged]:
    """The verdicts of workers, which replace a process that a candidate ends or holds up."""
    deaths = 0
    with Workers(engine, Judge, environment, True, words, seconds=SECONDS) as workers:
        for one in workers.map(_judged, lines):
            deaths = deaths + 1 if one.verdict.gates[-1].reason == KILLS else 0
            if deaths == DEATHS:
                raise CoevolveError(
                    f"{DEATHS} candidates in a row each ended the process that judged them; check memory, or set "
                    "COEVOLVE_PROCESSES=1 to judge in one process"
                )
            yield one


def _judged(worker: Any, line: str) -> Judged:
    for _ in range(TRIES):
        try:
            result: Judged = worker.call("judge", line)
            return result
        except WorkerLate:
            reason = f"takes longer than {SECONDS:g} s"
            break
        except WorkerDied:
            reason = KILLS
    return Judged(Verdict(content_hash(line), None, False, [Gate("readable", False, reason)]), cause=reason)


@dataclass
class Judge:
    """Runs the gates that do not depend on other tasks. ``world`` is the environment, if the caller has made it already."""

    name: str
    enabled: bool = True
    words: str = "language"
    world: Environment | None = None

    def __post_init__(self) -> None:
        self.environment = self.world or make(self.name)

    def judge(self, line: str) -> Judged:
        """The verdict on one line, up to the first gate that fails. No candidate can make it raise."""
        try:
            candidate = read(self.environment.name, line)
        except Exception as error:
            reason = writable(named(error)[:SHOWN])
            return Judged(Verdict(content_hash(line), None, False, [Gate("readable", False, reason)]))
        gates, causes, effects = [Gate("readable", True)], list[str](), list[WorldChange]()
        if self.enabled:
            _extend(gates, self._gates(candidate, effects), causes)
        else:
            gates += [Gate(name, None, "verify.enabled is false") for name in ENVIRONMENT_GATES]
        verdict = Verdict(candidate.candidate_id, candidate.task.task_id, _passed(gates), gates)
        return Judged(verdict, candidate.task, next(iter(effects), None), cause="".join(causes))

    def _gates(self, candidate: Candidate, effects: list[WorldChange]) -> Iterator[Gate]:
        """The environment's gates; if all pass, ``effects`` gets the effect of the task."""
        yield from environment_gates(self.environment, candidate, self.words)
        effects.append(effect_of(self.environment, candidate.task))


def read_lines(path: Path) -> list[str]:
    """The lines of a candidates file, readable or not, without blank lines.

    Invalid UTF-8 becomes lone surrogates, so that the gate `readable` rejects the line.
    """
    try:
        with path.open("rb") as file:
            return [line.rstrip(b"\r\n").decode(errors="surrogateescape") for line in file if line.strip()]
    except FileNotFoundError:
        raise missing(path) from None


def unchecked(verdicts: Iterable[Verdict]) -> Counter[str]:
    """The number of accepted candidates that each gate could not check."""
    return Counter(gate.name for verdict in verdicts for gate in verdict.unchecked)


def causes(judged: Iterable[Judged]) -> list[str]:
    """The interruptions of candidates."""
    return [one.cause for one in judged if one.cause]


def interruptions(judged: Sequence[Judged]) -> list[str]:
    """Notes on candidates that break their sessions, and on interrupted episodes of the policy."""
    ends = (end for one in judged if one.count for end in one.count.ends)
    return [*counted(causes(judged), len(judged), "candidates"), *interrupted(ends)]


def summary(t: int, judged: Sequence[Judged], meter: Meter, notes: Sequence[str] = ()) -> StageSummary:
    """The stage's summary of iteration ``t``. ``meter`` holds the costs."""
    verdicts = [one.verdict for one in judged]
    rates = [verdict.pass_rate for verdict in verdicts if verdict.accepted and verdict.pass_rate is not None]
    rejected = Counter(gate.name for verdict in verdicts for gate in verdict.gates if gate.passed is False)
    skipped = sorted(unchecked(verdicts).items())
    figures = {
        ACCEPTED: sum(verdict.accepted for verdict in verdicts),
        "pass rate": sum(rates) / len(rates) if rates else None,
        "pass rate episodes": sum(one.count.played for one in judged if one.count is not None),
        **{f"rejected by {gate}": count for gate, count in sorted(rejected.items())},
        **{f"not checked by {gate}": count for gate, count in skipped},
        **meter.costs(),
    }
    costs = ["pass rate episodes", *meter.costs()]
    said = [*notes, *meter.lost(), *(f"{count} accepted tasks are not checked by {gate}" for gate, count in skipped)]
    return StageSummary("verify", t, figures, columns=[ACCEPTED], costs=costs, notes=said)
