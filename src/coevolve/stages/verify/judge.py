"""Verification of candidate tasks by the environment alone: every gate a named outcome with its reason.

What a synthesized task must survive: its reference passes from a fresh world, twice the same; doing nothing fails, and
so do a wrong variant of the reference and the reference without any one call that changes the state; no change goes
unasked; it is no duplicate or near-duplicate, and overlaps no panel. Nothing in a candidate can raise here.
"""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.io import missing, parse
from coevolve.core.records import Candidate, Gate, Verdict
from coevolve.core.seeding import derive_seed
from coevolve.core.similarity import Index
from coevolve.core.stage_summary import ACCEPTED, StageSummary
from coevolve.core.success import is_success
from coevolve.core.task import Task, task_id_of
from coevolve.environments.environment import Environment
from coevolve.environments.registry import make
from coevolve.policies.policy import Policy
from coevolve.rollout import Limits, RolloutRequest, rollout, scored
from coevolve.stages.verify.gates import ENVIRONMENT_GATES, environment_gates

GATES = (*ENVIRONMENT_GATES, "duplicate", "near_duplicate", "panel_overlap")
MAX_LINE = 1_000_000  # characters of a candidate
MAX_CALLS = 64  # of a reference
MAX_SECONDS = 20.0  # for all gates of a candidate
CHUNK = 8  # candidates a worker takes at a time

Judged = tuple[Verdict, Task | None]


def verify(
    environment: str,
    lines: Sequence[str],
    known: Sequence[Task],
    panels: Mapping[str, Sequence[Task]],
    near_duplicate: float,
    processes: int,
    progress: Callable[[int], object] = lambda count: None,
    enabled: bool = True,
) -> list[Judged]:
    """A verdict for each line (JSON of a Candidate or a Task), in order, and the task where it could be read.

    Environment gates run in ``processes`` of their own; what depends on the other tasks is judged in order here.
    Without ``enabled`` the environment is not asked: the ablation of verification.
    """
    library = _Library(known, panels, near_duplicate)
    found = []
    for verdict, task in _by_environment(environment, lines, processes if enabled else 1, enabled):
        if task is not None and verdict.accepted:
            verdict = library.judge(verdict, task)
        else:
            rest = [Gate(name, None) for name in GATES[len(verdict.gates) :]]
            verdict = Verdict(verdict.candidate_id, verdict.task_id, False, [*verdict.gates, *rest])
        found.append((verdict, task))
        progress(1)
    return found


def _by_environment(environment: str, lines: Sequence[str], processes: int, enabled: bool) -> Iterator[Judged]:
    if processes <= 1 or len(lines) <= CHUNK:
        yield from (judge(environment, line, enabled) for line in lines)
        return
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    while chunks:
        with _pool(processes) as pool:
            futures = [pool.submit(_judge_chunk, environment, chunk) for chunk in chunks]
            try:
                while chunks:
                    yield from futures.pop(0).result()
                    chunks.pop(0)
            except BrokenProcessPool:
                pass
        if chunks:
            yield from _one_by_one(environment, chunks.pop(0))


def _pool(processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, mp_context=get_context("forkserver"))


def _one_by_one(environment: str, chunk: Sequence[str]) -> Iterator[Judged]:
    """A process for each candidate, to find out which one kills it."""
    deaths = 0
    for line in chunk:
        with _pool(1) as pool:
            try:
                yield pool.submit(judge, environment, line).result()
            except BrokenProcessPool:
                deaths += 1
                if deaths == CHUNK:
                    raise CoevolveError(
                        f"{CHUNK} processes in a row died while judging; check memory, or set verify.processes to 1"
                    ) from None
                yield Verdict(_name(line), None, False, [Gate("readable", False, "kills the process")]), None


def _judge_chunk(environment: str, lines: Sequence[str]) -> list[Judged]:
    return [judge(environment, line) for line in lines]


def _name(line: str) -> str:
    return content_hash(line)


def judge(environment: str, line: str, enabled: bool = True) -> Judged:
    """The environment's gates for one line; stops at the first that fails. Never raises on a candidate's account."""
    gates: list[Gate] = []
    candidate: Candidate | None = None
    try:
        with _limited(MAX_SECONDS):
            candidate = _read(environment, line)
            gates.append(Gate("readable", True))
            for gate in environment_gates(_made(environment), candidate) if enabled else _unasked():
                gates.append(gate)
                if gate.passed is False:
                    break
    except CoevolveError as error:
        gates.append(Gate(ENVIRONMENT_GATES[len(gates)], False, str(error)[:300]))
    except (Exception, RecursionError) as error:  # an environment that breaks on a candidate rejects it
        gates.append(Gate(ENVIRONMENT_GATES[len(gates)], False, f"{type(error).__name__}: {error}"[:300]))
    accepted = all(gate.passed is not False for gate in gates)
    if candidate is None:
        return Verdict(_name(line), None, False, gates), None
    return Verdict(candidate.candidate_id, candidate.task.task_id, accepted, gates), candidate.task


def _unasked() -> Iterator[Gate]:
    return (Gate(name, None, "verify.enabled is false") for name in ENVIRONMENT_GATES[1:])


@lru_cache(maxsize=1)
def _made(name: str) -> Environment:
    return make(name)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise a CoevolveError in the block when it takes longer; where signals cannot be had, there is no limit."""

    def late(number: int, frame: object) -> None:
        raise CoevolveError(f"took longer than {seconds:g} s")

    try:
        before = signal.signal(signal.SIGALRM, late)
    except ValueError:  # not in the main thread
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _read(environment: str, line: str) -> Candidate:
    if len(line) > MAX_LINE:
        raise CoevolveError(f"longer than {MAX_LINE} characters")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise CoevolveError("not JSON") from None
    if not isinstance(value, dict):
        raise CoevolveError("not a JSON object")
    if "task" in value:
        parse(Task, value["task"], "candidate.task")  # names the version of the task, if that is the trouble
        candidate = parse(Candidate, value, "candidate")
    else:
        task = parse(Task, value, "task")
        candidate = Candidate(content_hash(["task", task.task_id]), task, [])
    task = candidate.task
    if task.environment != environment:
        raise CoevolveError(f"belongs to environment {task.environment!r}, expected {environment!r}")
    if task.task_id != task_id_of(task.environment, task.world, task.turns, task.reference):
        raise CoevolveError("task_id is not the hash of the content")
    if not task.turns or not all(turn.strip() for turn in task.turns):
        raise CoevolveError("an instruction is empty")
    if len(task.turns) != len(task.reference):
        raise CoevolveError(f"{len(task.turns)} turns, but a reference of {len(task.reference)}")
    calls = sum(len(turn) for turn in task.reference)
    if not 0 < calls <= MAX_CALLS:
        raise CoevolveError(f"the reference has {calls} calls, expected 1 to {MAX_CALLS}")
    return candidate


class _Library:
    """What is known already: training tasks, those accepted so far, and the panels."""

    def __init__(self, known: Sequence[Task], panels: Mapping[str, Sequence[Task]], threshold: float) -> None:
        self._ids = {task.task_id: "known" for task in known}
        self._solutions = {_solution(task): "known" for task in known}
        self._near = Index(threshold)
        for task in known:
            self._near.add(task.task_id, _text(task))
        self._panel_solutions = {_solution(task): name for name, tasks in panels.items() for task in tasks}
        self._panels = Index(threshold)
        self._panel_of: dict[str, str] = {}
        for name, tasks in panels.items():
            for task in tasks:
                self._panel_of[task.task_id] = name
                self._panels.add(task.task_id, _text(task))

    def judge(self, verdict: Verdict, task: Task) -> Verdict:
        gates = list(verdict.gates)
        for gate in self._gates(task):
            gates.append(gate)
            if gate.passed is False:
                break
        accepted = all(gate.passed is not False for gate in gates)
        gates.extend(Gate(name, None) for name in GATES[len(gates) :])
        if accepted:
            self._ids[task.task_id] = self._solutions[_solution(task)] = "accepted"
            self._near.add(task.task_id, _text(task))
        return Verdict(verdict.candidate_id, verdict.task_id, accepted, gates)

    def _gates(self, task: Task) -> Iterator[Gate]:
        where = self._ids.get(task.task_id) or self._solutions.get(_solution(task))
        yield Gate("duplicate", where is None, f"the same as an {where} task" if where else "")
        near = self._near.nearest(_text(task))
        yield Gate("near_duplicate", near is None, f"{near[1]:.2f} like task {near[0]}" if near else "")
        panel = self._panel_solutions.get(_solution(task))
        close = self._panels.nearest(_text(task))
        if panel is None and close is not None:
            panel = self._panel_of[close[0]]
        yield Gate("panel_overlap", panel is None, f"overlaps panel {panel}" if panel else "")


def _text(task: Task) -> str:
    return "\n".join(task.turns)


def _solution(task: Task) -> str:
    """World and reference: tasks that differ in wording alone have one solution."""
    return content_hash([task.world, [[[call.name, call.arguments] for call in turn] for turn in task.reference]])


def read_lines(path: Path) -> list[str]:
    """The lines of a candidates file, readable or not; blank ones are skipped."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in file if line.strip()]
    except FileNotFoundError:
        raise missing(path) from None


def pass_rates(
    policy: Policy,
    environment: Environment,
    tasks: Sequence[Task],
    limits: Limits,
    samples: int,
    seed: int,
    progress: Callable[[int], object],
) -> dict[str, float]:
    """By task: the share of ``samples`` episodes of ``policy`` that succeed."""
    assignments = [
        RolloutRequest(task, derive_seed(seed, "pass rate", task.task_id, sample), sample=sample)
        for task in tasks
        for sample in range(samples)
    ]
    results: dict[str, list[bool]] = {}
    for episode in scored(rollout(policy, environment, assignments, limits, progress=progress)):
        results.setdefault(episode.trajectory.task_id, []).append(is_success(episode.trajectory.score))
    return {task_id: sum(found) / len(found) for task_id, found in results.items()}


def with_pass_rate(verdict: Verdict, task: Task | None, rates: Mapping[str, float]) -> Judged:
    """Verdict and task with the pass rate that was measured, if one was."""
    rate = rates.get(task.task_id) if task is not None and verdict.accepted else None
    if task is None or rate is None:
        return verdict, task
    provenance = replace(task.provenance, pass_rate=rate) if task.provenance else None
    return replace(verdict, pass_rate=rate), replace(task, provenance=provenance)


def summary(t: int, verdicts: Sequence[Verdict], samples: int) -> StageSummary:
    """Of iteration ``t``, in which ``samples`` episodes measured each pass rate."""
    accepted = [one for one in verdicts if one.accepted]
    rates = [one.pass_rate for one in accepted if one.pass_rate is not None]
    rejected = Counter(gate.name for one in verdicts for gate in one.gates if gate.passed is False)
    figures = {
        ACCEPTED: len(accepted),
        "pass rate": sum(rates) / len(rates) if rates else None,
        "pass rate episodes": len(rates) * samples,
        **{f"rejected by {gate}": count for gate, count in sorted(rejected.items())},
    }
    plots = {"mean pass rate of what was accepted": ["pass rate"]}
    return StageSummary("verify", t, figures, columns=[ACCEPTED], costs=["pass rate episodes"], plots=plots)
