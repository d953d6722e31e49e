"""Play stored trajectories again in the installed environment, and report which scores changed and why.

A trajectory holds everything that an agent said and called. So after a fix of a checker or a new version of an environment, no agent
needs to run again. The stored calls are repeated, turn by turn.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from coevolve.core.calls import misfit, writable
from coevolve.core.task import Score, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.environments.environment import Environment, Session, blameless

SAME, CHECKER, WORLD = "same score", "the checker gives another score", "the world answers differently"
LEFT, UNKNOWN, IMPOSSIBLE = "not played again", "its task is in none of the files", "no rollout writes such a record"
KINDS = (SAME, CHECKER, WORLD, LEFT, UNKNOWN, IMPOSSIBLE)

# Stop reasons of episodes that score 0 because the environment never scores them
UNSCORED = {
    StopReason.BROKEN: "the call that broke it is not recorded",
    StopReason.ENVIRONMENT_FAILED: "the environment failed",
}


@dataclass(frozen=True, slots=True)
class Rescored:
    """A trajectory's stored and new score. ``kind`` is one of KINDS, and ``why`` names the difference.

    ``after`` is None if the trajectory was not played again.
    """

    trajectory_id: str
    task_id: str
    kind: str
    before: float
    after: float | None
    why: str = ""
    checks: Mapping[str, bool] | None = None

    @property
    def holds(self) -> bool:
        """Whether the stored score is the new score, or the 0 of an episode that is not played again."""
        if self.kind in (UNKNOWN, IMPOSSIBLE):
            return False
        return self.before == (0.0 if self.after is None else self.after)


def rescore(
    environment: Environment,
    tasks: Mapping[str, Task],
    trajectories: Sequence[Trajectory],
    progress: Callable[[int], object] = lambda count: None,
) -> Iterator[Rescored]:
    """The result for each of ``trajectories``, in order. ``tasks`` are given by id."""
    for one in trajectories:
        yield _rescored(environment, tasks.get(one.task_id), one)
        progress(1)


def with_scores(trajectories: Sequence[Trajectory], found: Sequence[Rescored]) -> list[Trajectory]:
    """``trajectories`` with their new scores, without trajectories of UNKNOWN tasks.

    If the WORLD answers differently, a trajectory keeps its score: the agent might have continued differently after that answer.
    """
    return [
        one if new.after is None or new.kind == WORLD else replace(one, score=new.after, checks=dict(new.checks or {}))
        for one, new in zip(trajectories, found, strict=True)
        if new.kind != UNKNOWN
    ]


def counted(found: Sequence[Rescored]) -> dict[str, int]:
    """The number of results of each kind."""
    counts = Counter(one.kind for one in found)
    return {kind: counts[kind] for kind in KINDS}


def _rescored(environment: Environment, task: Task | None, one: Trajectory) -> Rescored:
    def unplayed(kind: str, after: float | None, why: str) -> Rescored:
        return Rescored(one.trajectory_id, one.task_id, kind, one.score, after, why)

    if reason := _impossible(one):
        return unplayed(IMPOSSIBLE, 0.0, reason)
    if task is None:
        return unplayed(UNKNOWN, None, "name its file with --tasks")
    if one.stop_reason in UNSCORED:
        return unplayed(LEFT, None, UNSCORED[one.stop_reason])
    if one.stop_reason is StopReason.TIMEOUT and one.score == 0:
        return unplayed(LEFT, None, "a call did not end")
    try:
        with closing(environment.open()) as session:
            other = _play(session, task, one)
            score = session.score()
    except Exception as error:
        if blameless(error, environment, task):
            return unplayed(LEFT, None, f"the environment failed: {error}")
        score, other = Score(0.0), f"it breaks the session: {type(error).__name__}"
    if other and not 0 <= one.score <= 1:  # such a score is never kept
        return unplayed(IMPOSSIBLE, 0.0, f"a score of {one.score:g} is not in [0, 1]")
    changed = score.reward != one.score
    kind = WORLD if other else CHECKER if changed else SAME
    why = other or (_otherwise(one.checks, score.checks) if changed else "")
    return Rescored(one.trajectory_id, one.task_id, kind, one.score, score.reward, why, score.checks)


def _impossible(one: Trajectory) -> str:
    """The reason why no rollout can have written this trajectory; empty if one may have."""
    if one.stop_reason in UNSCORED and one.score:
        return f"an episode that ends as {one.stop_reason} scores 0"
    if not one.messages and (one.score or one.stop_reason is not StopReason.TIMEOUT):  # a slow start leaves none
        return "it has no messages"
    if misfits := [(call.name, reason) for call in one.calls if (reason := misfit(call.name, call.arguments))]:
        return f"a call of {misfits[0][0][:80]}: {misfits[0][1]}"
    return ""


def _play(session: Session, task: Task, one: Trajectory) -> str:
    """Repeat the calls. Returns the first answer that differs, in a line; empty if none does."""
    first = session.reset(task)
    other = "" if writable(first.content) == one.messages[0]["content"] else "the first message has other words"
    made = 0
    for text, count in replies(one):
        if count:
            session.begin_reply()
        for call in one.calls[made : made + count]:
            heard = session.step(ToolCall(call.name, call.arguments))
            made += 1
            if not other and (writable(heard.content), not heard.error) != (call.observation, call.ok):
                other = f"call {made} ({call.name}) gets {writable(heard.content)[:80]!r} now, {call.observation[:80]!r} before"
            if heard.done:
                return other
        if not count and session.say(text).done:
            return other
    return other


def replies(one: Trajectory) -> Iterator[tuple[str, int]]:
    """The agent's replies, each with its number of calls, without unreadable and truncated replies."""
    made = 0
    for place, message in enumerate(one.messages):
        if message["role"] != "assistant":
            continue
        heard = []
        for later in range(place + 1, len(one.messages)):
            if one.messages[later]["role"] != "tool":
                break
            heard.append(one.messages[later]["content"])
        count = 0
        while count < len(heard) and made < len(one.calls) and one.calls[made].observation == heard[count]:
            count, made = count + 1, made + 1
        last = place == len(one.messages) - 1
        if count or not (heard or (last and one.stop_reason is StopReason.MAX_TOKENS)):
            yield message.get("content") or "", count


def _otherwise(before: Mapping[str, bool], after: Mapping[str, bool]) -> str:
    """The changed checks in words."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(f"{name}: {before.get(name)} before, {after.get(name)} now" for name in names) or "only the reward"
