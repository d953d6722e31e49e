"""Verify candidate tasks by the environment only: a verdict for each candidate, with the outcomes of all gates.

The reference of a synthesized task must pass from a fresh world, twice with the same result. These must fail: an agent that
does nothing, a wrong variant of the reference, and the reference without any of its calls that change the state. The
instruction must ask for every change. The task must not be a duplicate or near-duplicate, nor overlap a panel. No candidate
can raise an error here, and in workers no candidate can end the stage or hold it up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.core.calls import writable
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import missing
from coevolve.core.processes import WorkerDied, WorkerLate
from coevolve.core.records import Candidate, Gate, Verdict
from coevolve.core.stage_summary import ACCEPTED, StageSummary
from coevolve.core.task import Task
from coevolve.core.workers import Engine, Workers
from coevolve.endpoint.spending import Meter
from coevolve.environments.environment import Environment, blameless
from coevolve.environments.registry import make
from coevolve.stages.verify.gates import ENVIRONMENT_GATES, GATES, environment_gates, library_gates, read
from coevolve.stages.verify.library import Library, WorldChange, effect_of
from coevolve.stages.verify.pass_counts import PassCount

SECONDS = (
    600.0  # limit of a worker's call, with the start of its environment: a guard against a candidate that never ends
)
CHUNK = 16  # candidates per call of a worker
TRIES = 2  # dead processes before a candidate is to blame: another process may have exhausted the memory

Judged = tuple[Verdict, Task | None]


def accepted(judged: Iterable[Judged]) -> list[Task]:
    """The accepted tasks."""
    return [task for verdict, task in judged if verdict.accepted and task is not None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The environment's verdict on a line, its task, and the task's ``effect`` if it passes the gates."""

    verdict: Verdict
    task: Task | None = None
    effect: WorldChange | None = None


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
    results = []
    world = make(environment)
    for judgement in _by_environment(environment, world, lines, engine, enabled, words):
        verdict, task = judgement.verdict, judgement.task
        gates = list(verdict.gates)
        if task is not None and verdict.accepted:
            _extend(gates, library_gates(library, task, judgement.effect, world))
        accepted = task is not None and _passed(gates)
        if task is not None and accepted:
            library.add(task, "an accepted")
        gates += [Gate(name, None) for name in GATES[len(gates) :]]
        results.append((Verdict(verdict.candidate_id, verdict.task_id, accepted, gates), task))
        progress(1)
    return results


def _extend(gates: list[Gate], more: Iterator[Gate]) -> None:
    """Append gates up to the first that fails."""
    for gate in more:
        gates.append(gate)
        if gate.passed is False:
            return


def _passed(gates: Sequence[Gate]) -> bool:
    return all(gate.passed is not False for gate in gates)


def _by_environment(
    environment: str, world: Environment, lines: Sequence[str], engine: Engine | None, enabled: bool, words: str
) -> Iterator[Judgement]:
    if engine is None or not enabled:
        judge = Judge(environment, enabled, words, world)
        yield from (judge.judge(line) for line in lines)
        return
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    with Workers(engine, Judge, environment, True, words, seconds=SECONDS) as workers:

        def judged(chunk: Sequence[str]) -> list[Judgement]:
            try:
                results: list[Judgement] = workers.call("judge_all", chunk)
                return results
            except WorkerDied:
                return _one_by_one(workers, chunk)

        for results in workers.map(judged, chunks):
            yield from results


def _one_by_one(workers: Workers, chunk: Sequence[str]) -> list[Judgement]:
    """Judge the lines one after another, to find the candidate that kills the process or never ends."""
    results: list[Judgement] = []
    deaths = 0
    for line in chunk:
        for left in reversed(range(TRIES)):
            try:
                results.append(workers.call("judge", line))
                break
            except WorkerLate:
                late = [Gate("readable", False, f"takes longer than {SECONDS:g} s")]
                results.append(Judgement(Verdict(content_hash(line), None, False, late)))
                break
            except WorkerDied as error:
                if left:
                    continue
                deaths += 1
                if deaths == CHUNK:
                    raise CoevolveError(
                        f"{CHUNK} candidates in a row each ended the process that judged them ({error}); check memory, or set "
                        "COEVOLVE_PROCESSES=1 to judge in one process"
                    ) from None
                killed = [Gate("readable", False, "kills the process")]
                results.append(Judgement(Verdict(content_hash(line), None, False, killed)))
    return results


class Judge:
    """Runs the gates that do not depend on other tasks."""

    def __init__(
        self, environment: str, enabled: bool = True, words: str = "language", world: Environment | None = None
    ) -> None:
        """``world`` is the environment, if the caller has made it already."""
        self._name = environment
        self._environment = world or make(environment)
        self._enabled = enabled
        self._words = words

    def judge_all(self, lines: Sequence[str]) -> list[Judgement]:
        return [self.judge(line) for line in lines]

    def judge(self, line: str) -> Judgement:
        """The verdict on one line, up to the first gate that fails. No candidate can make it raise."""
        gates: list[Gate] = []
        candidate: Candidate | None = None
        effect: WorldChange | None = None
        try:
            candidate = read(self._name, line)
            gates.append(Gate("readable", True))
            world = self._environment.of(candidate.task)
            _extend(gates, environment_gates(world, candidate, self._words) if self._enabled else _unasked())
            if self._enabled and _passed(gates):
                effect = effect_of(world, candidate.task)
        except Exception as error:  # a candidate that breaks the environment is rejected
            gates.append(Gate(GATES[len(gates)], False, _reason(error)))
        if candidate is None:
            return Judgement(Verdict(content_hash(line), None, False, gates))
        verdict = Verdict(candidate.candidate_id, candidate.task.task_id, _passed(gates), gates)
        return Judgement(verdict, candidate.task, effect)


def in_panel(environment: Environment, library: Library, task: Task) -> bool:
    """Whether a panel holds ``task`` in any spelling, by the gate `panel_overlap`. A task that raises an error counts too."""
    if library.panel(task) is not None:
        return True
    try:
        return library.panel(task, effect_of(environment.of(task), task), environment) is not None
    except Exception as error:
        if blameless(error, environment.of(task), task):
            raise
        return True


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, CoevolveError) else f"{type(error).__name__}: {error}"
    return writable(text[:300])


def _unasked() -> Iterator[Gate]:
    return (Gate(name, None, "verify.enabled is false") for name in ENVIRONMENT_GATES)


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


def summary(
    t: int, verdicts: Sequence[Verdict], counts: Mapping[str, PassCount], meter: Meter, notes: Sequence[str] = ()
) -> StageSummary:
    """The stage's summary of iteration ``t``. ``counts`` hold the episodes behind the pass rates, ``meter`` the costs."""
    accepted = [verdict for verdict in verdicts if verdict.accepted]
    rates = [verdict.pass_rate for verdict in accepted if verdict.pass_rate is not None]
    rejected = Counter(gate.name for verdict in verdicts for gate in verdict.gates if gate.passed is False)
    figures = {
        ACCEPTED: len(accepted),
        "pass rate": sum(rates) / len(rates) if rates else None,
        "pass rate episodes": sum(count.played for count in counts.values()),
        **{f"rejected by {gate}": count for gate, count in sorted(rejected.items())},
        **{f"not checked by {gate}": count for gate, count in sorted(unchecked(verdicts).items())},
        **meter.costs(),
    }
    costs = ["pass rate episodes", *meter.costs()]
    return StageSummary("verify", t, figures, columns=[ACCEPTED], costs=costs, notes=[*notes, *meter.lost()])
