"""The tasks that a candidate must not repeat: training tasks, earlier accepted candidates, and frozen panels."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from coevolve.core.hashing import content_hash
from coevolve.core.interruptions import contained
from coevolve.core.records import Gate
from coevolve.core.similarity import Index, Passages
from coevolve.core.task import Task
from coevolve.environments.chains import replay
from coevolve.environments.environment import Environment

HELD = 0.9  # share of a panel's instruction from which another instruction counts as containing it


@dataclass(frozen=True, slots=True)
class WorldChange:
    """The effect of a reference, independent of the spelling of world and reference.

    ``start`` and ``end`` are digests of the world before and after the reference. ``changes`` are hashes of the calls
    that change the world, or of all calls if none does. ``said`` are the words that the session said to the agent.
    """

    start: str
    end: str
    changes: tuple[str, ...]
    said: str

    def holds(self, other: "WorldChange") -> bool:
        """Whether solving this task also solves the other: both have the same start, and the same end or all changes of the other."""
        if self.start != other.start:
            return False
        same_end = self.end == other.end and self.end != self.start
        return same_end or not Counter(other.changes) - Counter(self.changes)


def effect_of(environment: Environment, task: Task) -> WorldChange:
    with closing(environment.open()) as session:
        session.reset(task)
        start = session.digest()
        played = replay(session, task)
        calls = [content_hash([call.name, call.arguments]) for call in played.chain]
        changes = [call for call, changes in zip(calls, played.changed, strict=True) if changes]
        return WorldChange(start, session.digest(), tuple(changes or calls), "\n".join(played.said))


class Library:
    """Known tasks and panels. Instructions with at least the similarity ``near_duplicate`` are near-duplicates."""

    def __init__(self, tasks: Sequence[Task], panels: Mapping[str, Sequence[Task]], near_duplicate: float) -> None:
        self._ids: dict[str, str] = {}
        self._solutions: dict[str, str] = {}
        self._texts = Index(near_duplicate)
        for task in tasks:
            self.add(task, "a known")
        self._panels = {task.task_id: (name, task) for name, tasks in panels.items() for task in tasks}
        self._panel_solutions = {solution_of(task): name for name, task in self._panels.values()}
        self._panel_texts = Index(near_duplicate)
        self._panel_passages = Passages(HELD)
        for key, (_, task) in self._panels.items():
            self._panel_texts.add(key, text_of(task))
            self._panel_passages.add(key, text_of(task))
        self._panel_starts: dict[str, list[str]] = defaultdict(list)
        self._panel_effects: dict[str, WorldChange] = {}

    def add(self, task: Task, kind: str, effect: WorldChange | None = None) -> None:
        """Add ``task``. ``kind``, with its article, describes it in the reason for refusing a duplicate."""
        self._ids[task.task_id] = self._solutions[solution_of(task)] = kind
        self._texts.add(task.task_id, text_of(task, effect))

    def gates(self, task: Task, effect: WorldChange | None, environment: Environment) -> Iterator[Gate]:
        """The gates that depend on other tasks, in order. ``effect`` is the task's effect in ``environment``, if it is known.

        ``task`` overlaps a panel that holds its solution, or a near-duplicate or a part of its instruction. Without ``effect``
        the comparison of solutions is literal.
        """
        text, solution = text_of(task, effect), solution_of(task)
        kind = self._ids.get(task.task_id) or self._solutions.get(solution)
        yield Gate("duplicate", kind is None, f"the same as {kind} task" if kind else "")
        near = self._texts.nearest(text)
        yield Gate("near_duplicate", near is None, f"{near[1]:.2f} like task {near[0]}" if near else "")
        close = self._panel_texts.nearest(text)
        keys = [close[0]] if close else self._panel_passages.within(text)
        if not keys and effect is not None:
            keys = self._starts(environment).get(effect.start, [])  # in the same world
            held = set(self._panel_passages.within(text, least=1)) if keys else set()
            keys = [key for key in keys if key in held or effect.holds(self._effect(key, environment))]
        panel = self._panel_solutions.get(solution) or (self._panels[keys[0]][0] if keys else None)
        yield Gate("panel_overlap", panel is None, f"overlaps panel {panel}" if panel else "")

    def panel_of(self, task: Task, environment: Environment) -> str | None:
        """The panel that holds ``task``, in any spelling of its world, words and reference; None if no panel does."""
        effect = effect_of(environment, task)
        keys = self._starts(environment).get(effect.start, [])
        held = set(self._panel_passages.within(text_of(task, effect), least=1)) if keys else set()
        for key in keys:
            other = self._effect(key, environment)
            if key in held or (effect.holds(other) and other.holds(effect)):
                return self._panels[key][0]
        return None

    def _starts(self, environment: Environment) -> dict[str, list[str]]:
        """The panel tasks by the digest of their start, which the environment computes once, on first use."""
        if self._panels and not self._panel_starts:
            for key, (_, task) in self._panels.items():
                with contained([]), closing(environment.open()) as session:  # no task starts in a world that never does
                    session.reset(task)
                    self._panel_starts[session.digest()].append(key)
        return self._panel_starts

    def _effect(self, key: str, environment: Environment) -> WorldChange:
        if key not in self._panel_effects:
            self._panel_effects[key] = effect_of(environment, self._panels[key][1])
        return self._panel_effects[key]


def text_of(task: Task, effect: WorldChange | None = None) -> str:
    """The text of a task for comparisons: what its session says, as far as its ``effect`` is known."""
    return effect.said if effect is not None else "\n".join(task.turns)


def solution_of(task: Task) -> str:
    """Hash of world and reference. Tasks that differ only in wording have the same solution."""
    return content_hash([task.world, [[[call.name, call.arguments] for call in turn] for turn in task.reference]])
