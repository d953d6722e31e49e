"""Over-generate and select: keep the accepted tasks that teach the agent most.

Selection needs no trained task generator and works with any guidance. It is the baseline for methods that steer
difficulty.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from coevolve.core.errors import CoevolveError
from coevolve.core.learnability import SHAPES, Record
from coevolve.core.paths import Paths
from coevolve.core.records import Attempt, Gate
from coevolve.core.task import Task
from coevolve.stages.verify.config import Select
from coevolve.stages.verify.judge import Judged, accepted

GATE = "selected"
UNMEASURED = "enough tasks are kept, family by family; no policy measured pass rates"
UNSOLVED = "pass rate 0.00, and no task with the same tools was ever solved"
FEW, MOST = 8, 0.75  # kept tasks up to which a note would be chance, and the share of them that it takes

Kind = frozenset[str]


def select(
    judged: Sequence[Judged],
    config: Select,
    solved: Collection[Kind] = (),
) -> list[Judged]:
    """Add a last gate to the accepted tasks: the ``config.keep`` most instructive tasks pass it.

    ``config.shape`` of the chance of success, estimated from the counted episodes, ranks the tasks. The share
    ``config.variety`` is chosen family by family, the best of each first. Without episodes all tasks are worth the same.

    A task that no episode solves teaches nothing, so it passes only if a task of its kind was solved in other episodes or is
    in ``solved``, or if ``config.unsolved`` says so. Then fewer tasks than ``config.keep`` may pass.
    """
    tasks = {task.task_id: task for task in accepted(judged)}
    counts = {one.task.task_id: one.count for one in judged if one.task is not None and one.count is not None}
    worth = dict.fromkeys(tasks, 0.0)  # also if the environment failed in every episode
    for name, count in counts.items():
        if count.rate is not None:
            successes = count.rate * count.episodes  # its rounding orders tasks of equal worth, so it must not change
            worth[name] = SHAPES[config.shape](Record(successes, count.episodes).chance)
    able = {*solved, *(kind(tasks[name]) for name, count in counts.items() if count.rate)}
    failed = {name for name, count in counts.items() if count.rate == 0.0 and not config.unsolved}
    hopeless = {name for name in failed if kind(tasks[name]) not in able}
    eligible = [task for name, task in tasks.items() if name not in hopeless]
    kept = _kept(eligible, worth, min(len(eligible), config.keep), config.variety)
    result = []
    for one in judged:
        verdict, name = one.verdict, one.verdict.task_id or ""
        if verdict.accepted:
            rate = "unknown" if verdict.pass_rate is None else f"{verdict.pass_rate:.2f}"
            reason = f"pass rate {rate}: others are worth more than {worth[name]:.2f}" if counts else UNMEASURED
            reason = UNSOLVED if name in hopeless else reason
            gate = Gate(GATE, name in kept, "" if name in kept else reason)
            one = replace(one, verdict=replace(verdict, accepted=name in kept, gates=[*verdict.gates, gate]))
        result.append(one)
    return result


def kind(task: Task) -> Kind:
    """The tools that solve ``task``: two tasks with the same tools are of one kind, whatever their words and order."""
    return frozenset(call.name for call in task.calls)


def solved_kinds(tasks: Iterable[Task], attempts: Iterable[Attempt]) -> set[Kind]:
    """The kinds of the ``tasks`` that the agent solved, in ``attempts`` or when their pass rate was measured."""
    solved = {attempt.task_id for attempt in attempts if attempt.successes}
    measured = {task.task_id for task in tasks if task.provenance is not None and task.provenance.pass_rate}
    return {kind(task) for task in tasks if task.task_id in solved | measured}


def notes(judged: Sequence[Judged], keep: int, tools: int) -> list[str]:
    """What a person must know about a selection: the tasks that it left out as unsolved, and kept tasks that are alike.

    ``tools`` is the number of tools of the environment. With half of the quota or more, unsolved tasks are not missed.
    """
    tasks = accepted(judged)
    hopeless = sum(gate.reason == UNSOLVED for one in judged for gate in one.verdict.gates)
    found = []
    if hopeless and len(tasks) < keep / 2:
        found.append(
            f"{len(tasks)} of at most {keep} tasks are kept: the policy solves none of {hopeless} others, and never "
            "solved a task with the same tools (verify.select.unsolved keeps them)"
        )
    chains = Counter(tuple(call.name for call in task.calls) for task in tasks)
    firsts = Counter(chain[:1] for chain in chains.elements())
    for counter, what in ((chains, "consist of"), (firsts, "begin with")):
        chain, count = counter.most_common(1)[0] if counter else ((), 0)
        if len(tasks) > FEW and count >= MOST * len(tasks) and tools > len(set(chain)):
            return [*found, f"{count} of {len(tasks)} kept tasks {what} {', then '.join(chain)}"]
    return found


def check_left(t: int, measured: int, kept: int) -> None:
    """Raise a CoevolveError if iteration ``t`` keeps none of its ``measured`` tasks: more rounds teach nothing new."""
    if measured and not kept:
        raise CoevolveError(
            f"{Paths.verified(t)}: no new task is left, because policies/{t + 1} solves none of {measured} and never "
            f"solved a task with the same tools. Read {Paths.candidates(t)}: if a person would not say its "
            "instructions, give the environment phrases (`coevolve env phrases`); else train longer (train.steps, warm.steps), start "
            "from a more able model (base.model), or keep unsolved tasks (verify.select.unsolved: true)"
        )


def _kept(tasks: Sequence[Task], worth: Mapping[str, float], room: int, variety: float) -> set[str]:
    """The ids of the ``room`` tasks that are kept.

    Variety takes from the families one after another. In each round, a family waits for the others while its best task
    has a first call, a chain of calls or a tool that more than half of the tasks taken so far have.
    """
    ranked = sorted(tasks, key=lambda task: -worth[task.task_id])  # stable: earlier tasks first
    kept: dict[str, None] = {}
    families: dict[str, deque[Task]] = defaultdict(deque)
    for task in ranked:
        families[task.family].append(task)
    rounds: Counter[str] = Counter()
    taken: Counter[object] = Counter()

    def turn(name: str) -> tuple[int, int]:
        return rounds[name], sum(2 * taken[part] > len(kept) for part in _parts(families[name][0]))

    while families and len(kept) < round(room * variety):
        name = min(families, key=turn)
        task = families[name].popleft()
        kept[task.task_id] = None
        taken.update(_parts(task))
        rounds[name] += 1
        if not families[name]:
            del families[name]
    for task in ranked:
        if len(kept) >= room:
            break
        kept[task.task_id] = None
    return set(kept)


def _parts(task: Task) -> set[object]:
    """The parts of a task that make it like others: its tools, its first call and its chain of calls."""
    chain = tuple(call.name for call in task.calls)
    return {*chain, ("first", chain[:1]), ("chain", chain)}
