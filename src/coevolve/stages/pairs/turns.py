"""Pairs of single turns: from one history, what the reference would do next over the reply by which an agent departed from it.

The ablation of whole episodes, at which ETO found pairs of steps to do worse (arXiv 2403.02502). Both sides are episodes
that the environment has played: the chosen one is the failure up to that reply and then what its task still asks for, and succeeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coevolve.chains import replay
from coevolve.core.hashing import content_hash
from coevolve.core.records import Pair, Trajectory
from coevolve.core.success import is_success
from coevolve.core.task import Task, ToolCall
from coevolve.environments.environment import Session
from coevolve.policies.scripted_policy import ScriptPolicy
from coevolve.policies.text import parse_reply, render_call
from coevolve.rollout import RolloutRequest, rollout
from coevolve.stages.pairs.choose import EXPERT, EXPERT_HARD, FINISHED, OWN, OWN_HARD

if TYPE_CHECKING:
    from coevolve.stages.pairs.evolve import Ground

OVER = "done"  # what an agent says that has nothing left to do
SPOILERS = 4  # replies that are tried after a finished episode, at most
MENDED, SPOILT = -2, -3  # numbers of samples: of episodes that nobody sampled

Judge = Callable[[Sequence[Trajectory]], Mapping[str, float]]  # ranks of those that failed, by id


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a reference; ``counts``: it changes the world or ends the episode, or nothing of its turn does."""

    call: ToolCall
    counts: bool


@dataclass(frozen=True, slots=True)
class Departure:
    """Where an episode departs from what its task asks: its reply of number ``reply``. ``left`` are the calls that were asked for
    and not made before it, by turn of the user; ``ends``: the reply ends the turn or the episode.
    """

    reply: int
    left: list[list[ToolCall]]
    ends: bool


@dataclass(frozen=True, slots=True)
class ByTurn:
    """``pairs`` of single turns, the episodes ``continued`` for them, and how many pairs of whole episodes had no such turn."""

    pairs: Sequence[Pair] = ()
    continued: Sequence[Trajectory] = ()
    without: int = 0


def asked(session: Session, task: Task, reference: Sequence[Sequence[ToolCall]]) -> list[list[Asked]]:
    """The calls of ``reference``, by turn of the user."""
    made, changed, ended = replay(session, task, reference)
    counts = [change or (ended and place == len(made) - 1) for place, change in enumerate(changed)]
    counts += [True] * (sum(map(len, reference)) - len(counts))
    found, start = [], 0
    for turn in reference:
        some = counts[start : start + len(turn)]
        start += len(turn)
        found.append([Asked(call, count or not any(some)) for call, count in zip(turn, some, strict=True)])
    return found


def departure(session: Session, task: Task, wanted: Sequence[Sequence[Asked]], episode: Trajectory) -> Departure | None:
    """The first reply that changes the world by a call which is not asked for, or that ends a turn of the user's, or the episode,
    while calls that count remain; None if there is none. Lookups are no departures, and neither is another order.
    """
    calls: list[list[ToolCall]] = [[] for _ in range(max((one.turn for one in episode.calls), default=-1) + 1)]
    for one in episode.calls:
        calls[one.turn].append(ToolCall(one.name, one.arguments))
    _, changed, ended = replay(session, task, calls)
    left, number = [list(turn) for turn in wanted], 0
    for reply, text in enumerate(said(episode)):
        before = [[one.call for one in turn] for turn in left]
        made, wrong = parse_reply(text)
        for _ in made:
            if number >= len(changed):  # what cut the episode off, or broke it, is not in its calls
                return None
            one = episode.calls[number]
            last = ended and number == len(changed) - 1
            known = next((each for each in left[0] if each.call == ToolCall(one.name, one.arguments)), None)
            if known and one.ok:
                left[0].remove(known)
            strange = not known and changed[number]
            if strange or (last and any(each.counts for turn in left for each in turn)):
                return Departure(reply, before, last)
            number += 1
        if not made and not wrong:
            if any(each.counts for each in left[0]):
                return Departure(reply, before, True)
            left = left[1:]
        if not left:
            return None
    return None


def said(episode: Trajectory) -> list[str]:
    """The agent's replies."""
    return [message["content"] for message in episode.messages if message["role"] == "assistant"]


def by_turn(
    pairs: Sequence[Pair], episodes: Mapping[str, Trajectory], ground: "Ground", judge: Judge, margin: float
) -> ByTurn:
    """For each of ``pairs``, which are of whole ``episodes`` (by id), one of the turn in which the failed one departs.

    A failure that cannot be mended from there makes none. Many failures depart by ending, and what is asked for goes on there: such
    pairs alone would teach never to end. So each of them has another beside it, as far as there is one (``finishing``).
    """
    stage = _Stage(ground, {task.task_id: task for task in ground.plan.tasks})
    session = ground.environment.open()
    try:
        wanted = {
            name: asked(session, stage.tasks[name], ground.environment.reference(stage.tasks[name]))
            for name in dict.fromkeys(pair.task_id for pair in pairs)
        }
        parted = [
            (pair, one)
            for pair in pairs
            if (one := departure(session, stage.tasks[pair.task_id], wanted[pair.task_id], episodes[pair.rejected]))
        ]
    finally:
        session.close()
    scripts = [(pair.task_id, [*said(episodes[pair.rejected])[: one.reply], *_rest(one.left)]) for pair, one in parted]
    mended = [
        (_turn(pair, good, one.reply), one, good)
        for (pair, one), good in zip(parted, stage.play(scripts, MENDED), strict=True)
        if is_success(good.score)
    ]
    strange: dict[str, list[str]] = {}
    for pair, one in parted:
        if not one.ends:
            strange.setdefault(pair.task_id, []).append(said(episodes[pair.rejected])[one.reply])
    for name, turns in wanted.items():
        strange.setdefault(name, []).extend(render_call(one.call) for turn in turns for one in turn if one.counts)
    last = finishing([(pair, good) for pair, one, good in mended if one.ends], strange, stage, judge, margin)
    return ByTurn(
        [*(pair for pair, _, _ in mended), *(pair for pair, _ in last)],
        [*(good for _, _, good in mended), *(bad for _, bad in last)],
        len(pairs) - len(mended),
    )


def finishing(
    mended: Sequence[tuple[Pair, Trajectory]],
    strange: Mapping[str, Sequence[str]],
    stage: "_Stage",
    judge: Judge,
    margin: float,
) -> list[tuple[Pair, Trajectory]]:
    """For each of ``mended``, the pair of its last reply over the first of the replies ``strange`` (by task) that makes a failure of
    it, ranked ``margin`` or more below a success; with that failure.
    """
    tried = [
        (pair, good, text) for pair, good in mended for text in list(dict.fromkeys(strange[pair.task_id]))[:SPOILERS]
    ]
    spoilt = stage.play([(pair.task_id, [*said(good)[:-1], text, OVER]) for pair, good, text in tried], SPOILT)
    ranks = judge(spoilt)
    found: dict[str, tuple[Pair, Trajectory]] = {}
    for (pair, good, _), bad in zip(tried, spoilt, strict=True):
        rank = ranks.get(bad.trajectory_id, 1.0)
        if good.trajectory_id not in found and rank <= 1.0 - margin:
            one = replace(pair, kind=FINISHED, rejected=bad.trajectory_id, closeness=rank)
            found[good.trajectory_id] = (_turn(one, good, len(said(good)) - 1), bad)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where scripts are played: each a task's id and the agent's replies."""

    ground: "Ground"
    tasks: Mapping[str, Task]

    def play(self, scripts: Sequence[tuple[str, Sequence[str]]], sample: int) -> list[Trajectory]:
        iteration = self.ground.plan.iteration
        requests = [
            RolloutRequest(self.tasks[name], number, iteration, sample=sample)
            for number, (name, _) in enumerate(scripts)
        ]
        policy = ScriptPolicy([texts for _, texts in scripts])
        episodes = rollout(policy, self.ground.environment, requests, self.ground.limits)
        return [one.trajectory for one in episodes]


def _rest(left: Sequence[Sequence[ToolCall]]) -> list[str]:
    return [text for turn in left for text in (*map(render_call, turn), OVER)]


def _turn(pair: Pair, chosen: Trajectory, turn: int) -> Pair:
    """``pair`` with ``chosen`` on its right side, of the reply of number ``turn`` alone."""
    name = content_hash([pair.task_id, pair.iteration, chosen.trajectory_id, pair.rejected, turn])
    kind = {OWN: EXPERT, OWN_HARD: EXPERT_HARD}.get(pair.kind, pair.kind)  # the reference mends all of them
    return replace(pair, pair_id=name, kind=kind, chosen=chosen.trajectory_id, chosen_closeness=1.0, turn=turn)
