"""Tasks of the rows of a trainer's data set, with references from the agent's own rollouts.

A rollout belongs to the row that has its task id or its prompt, if the class gives each of its calls there the answer that the
file holds. A rollout with the full reward solves its row: the shortest one, replayed once more, becomes the reference.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import by_value, state_hash
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import Trajectory
from coevolve.core.untrusted import one_line
from coevolve.environments.chains import data_of, replay
from coevolve.environments.row_environment import RowEnvironment, RowSession
from coevolve.rollouts.chats import Unreadable, chat
from coevolve.rollouts.rollout_row import RolloutRow

UNKNOWN = "no row of the data set begins with its prompt, or no rollout solves that row"
SEVERAL = "several rows begin with its prompt and answer its calls alike: log a task_id (docs/concepts/signals.md)"
OTHERWISE = "the class answers its calls otherwise: another version of it, or a row that is not known"


class RowMatch:
    """Finds the task of a rollout among ``tasks`` of rows."""

    def __init__(self, environment: RowEnvironment, tasks: Iterable[Task]) -> None:
        self._environment = environment
        self._by_id: dict[str, list[Task]] = defaultdict(list)
        self._by_prompt: dict[str, list[Task]] = defaultdict(list)
        with closing(environment.open()) as session:
            for number, task in enumerate(tasks):
                asked = session.reset(task).content.strip()
                if number == 0:
                    _repeatable(session, task)
                self._by_prompt[asked].append(task)
                self._by_id[str(task.world.get("task_id"))].append(task)

    def __call__(self, row: RolloutRow) -> str:
        """The task's id. A rollout without a known task is Unreadable."""
        _, calls, _ = chat(row.messages, row.prompt_messages, row.tools or self._environment.tools())
        candidates = self._by_id.get(row.task_id or "") or self._by_prompt.get(row.request, [])
        if not candidates:
            raise Unreadable(UNKNOWN)
        with closing(self._environment.open()) as session:
            # a Parquet file with a 4.5 writes 5 as 5.0, and the class may answer the two differently
            differences = {
                task.task_id: difference(session, task, calls) and difference(session, task, _whole(calls))
                for task in candidates
            }
        same = [name for name, text in differences.items() if not text]
        if len(same) > 1:
            raise Unreadable(SEVERAL)
        if not same:
            raise Unreadable(f"{OTHERWISE} ({next(iter(differences.values()))})")
        return same[0]


def _repeatable(session: RowSession, task: Task) -> None:
    """Raise a CoevolveError if the world of ``task`` is another one at a second `reset`."""
    first = session.state()
    session.reset(task)
    second = session.state()
    if other := [name for name, value in second.items() if value != first.get(name)]:
        raise CoevolveError(
            f"{task.environment}: the same row starts another world at each reset ({', '.join(other)} differ), so rollouts cannot be replayed; "
            "let reset draw nothing, or give the class a method state() that returns what counts. A state that a server holds, "
            "coevolve cannot see"
        )


def difference(session: RowSession, task: Task, calls: Sequence[CallOutcome]) -> str:
    """The first of ``calls`` that gets another answer in the world of ``task``; empty if all get the same."""
    session.reset(task)
    for call in calls:
        if call.observation:  # TRL leaves calls out that are too many, and then the file has no answer
            heard = session.step(ToolCall(call.name, call.arguments)).content
            if not _same(heard, call.observation):
                given = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
                return one_line(
                    f"{call.name}({given}) gives {heard[:60]!r}, and the file has {call.observation[:60]!r}", 300
                )
    return ""


def _whole(calls: Sequence[CallOutcome]) -> list[CallOutcome]:
    """``calls`` with whole numbers as integers, as agents write them."""
    return [replace(call, arguments=by_value(call.arguments)) for call in calls]


def _same(heard: str, noted: str) -> bool:
    return heard.strip() == noted.strip() or state_hash(data_of(heard)) == state_hash(data_of(noted))


@dataclass(frozen=True)
class SolvedRows:
    """The ``tasks`` of rows that a rollout with the ``full`` reward solves, and ``notes`` on the others."""

    tasks: list[Task]
    full: float
    notes: list[str]


def solved_rows(
    environment: RowEnvironment, tasks: Mapping[str, Task], rollouts: Iterator[Trajectory], threshold: float | None
) -> SolvedRows:
    """The tasks that ``rollouts`` solve, with their references. ``threshold`` is the full reward, by default the highest."""
    tried: dict[str, list[tuple[float, list[CallOutcome]]]] = defaultdict(list)
    for one in rollouts:
        if one.counts:
            tried[one.task_id].append((one.score, [call for call in one.calls if call.ok]))
    rewards = {score for attempts in tried.values() for score, _ in attempts}
    full = threshold if threshold is not None else max(rewards, default=0.0)
    if not rewards or max(rewards) < full or max(rewards) <= 0.0:
        found = f"the highest is {max(rewards):g}" if rewards else "there is none"
        raise CoevolveError(f"no rollout has the full reward ({found}), so none shows how a task is solved")
    notes = [f"all rewards are {full:g}, so they show no weakness"] if len(rewards) == 1 else []
    solved, wrong = list[Task](), list[str]()
    with closing(environment.open()) as session:
        for name, task in tasks.items():
            whole = sorted((calls for score, calls in tried[name] if score >= full), key=len)
            flaws = list[str]()
            for calls in whole:
                reference = [ToolCall(call.name, call.arguments) for call in _whole(calls)]
                flaws.append(_flaw(session, environment.task_of(task.world, reference), full))
                if not flaws[-1]:
                    solved.append(environment.task_of(task.world, reference))
                    break
            else:
                wrong += [f"{task.turns[0]!r}: {flaw}" for flaw in flaws[-1:]]
    unsolved = [task for name, task in tasks.items() if not any(score >= full for score, _ in tried[name])]
    if unsolved:
        example = one_line(unsolved[0].turns[0], 60)
        notes.append(f"rows that no rollout solves, left out: {len(unsolved)} of {len(tasks)} (such as {example!r})")
    if wrong:
        notes.append(f"rows whose solution does not repeat, left out: {len(wrong)} (such as {one_line(wrong[0], 200)})")
    if not solved:
        raise CoevolveError(f"no reference could be made of the rollouts: {'; '.join(notes)}")
    return SolvedRows(solved, full, [f"{len(solved)} references from rollouts with reward {full:g}, replayed", *notes])


def _flaw(session: RowSession, task: Task, full: float) -> str:
    """Why the reference of ``task`` does not solve it; empty if it does."""
    if not task.calls:
        return "it is solved without a call"
    if refused := replay(session, task, watch=False).refused:
        return f"{refused.name} is refused: {refused.observation}"
    reward = session.reward()
    return "" if reward is None or reward >= full else f"its reward is {reward:g} at the replay"
