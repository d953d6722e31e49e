"""Pairs of single turns: where an episode departs from its task, by hand and in what the tiny policy plays, and what mends it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coevolve.core.hashing import content_hash
from coevolve.core.records import StopReason, Trajectory
from coevolve.core.success import is_success
from coevolve.core.task import Observation, Score, Task, ToolCall
from coevolve.environments.environment import Environment, Session
from coevolve.policies.loading import playing
from coevolve.policies.scripted_policy import ScriptPolicy
from coevolve.policies.text import render_call
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.pairs.check import check
from coevolve.stages.pairs.choose import EXPERT, FINISHED
from coevolve.stages.pairs.evolve import Ground
from coevolve.stages.pairs.health import summary
from coevolve.stages.pairs.make import Made, make
from coevolve.stages.pairs.rehearse import Rehearsal
from coevolve.stages.pairs.turns import Departure, asked, departure, said
from tests import ROOT
from tests.stages.train.small import ACTING, CONFIG, PARAMS, WORLD

LIMITS = Limits.of(ACTING)
OWN = PARAMS.pairs.model_copy(update={"level": "turn", "hard": 0.0})


class Desk(Session):
    """Two turns of the user: things are put on a desk, and may be looked at."""

    def reset(self, task: Task) -> Observation:
        self._task, self._turn, self._things = task, 0, Counter[str]()
        return Observation("user", task.turns[0], [])

    def step(self, call: ToolCall) -> Observation:
        if call.name == "put":
            self._things[call.arguments["thing"]] += 1
        return Observation("tool", "fine", error=call.name not in ("put", "look"))

    def say(self, text: str) -> Observation:
        self._turn += 1
        over = self._turn == len(self._task.turns)
        return Observation("user", "" if over else self._task.turns[self._turn], done=over)

    def score(self) -> Score:
        wanted = Counter(call.arguments["thing"] for call in self._task.calls if call.name == "put")
        return Score(float(self._things == wanted and self._turn == len(self._task.turns)))

    def digest(self) -> str:
        return content_hash(sorted(self._things.elements()))

    def close(self) -> None:
        return


class Office(Environment):
    name, fingerprint, panels = "office", "1", ()

    def load_tasks(self, split: str) -> Sequence[Task]:
        return []

    def tools(self) -> Sequence[dict[str, object]]:
        return []

    def open(self) -> Session:
        return Desk()


def put(thing: str) -> ToolCall:
    return ToolCall("put", {"thing": thing})


LOOK = ToolCall("look")
TASK = Task.create(
    "office", "seed", ["put a pen and a cup", "put a book"], {}, [[LOOK, put("pen"), put("cup")], [put("book")]]
)
OVER = "that is all"


def played(environment: Environment, task: Task, replies: Sequence[str | Sequence[ToolCall]]) -> Trajectory:
    """What comes of these replies, each a text or calls."""
    texts = [one if isinstance(one, str) else "\n".join(map(render_call, one)) for one in replies]
    (found,) = rollout(ScriptPolicy([texts]), environment, [RolloutRequest(task, 0)], LIMITS)
    return found.trajectory


def departed(environment: Environment, task: Task, replies: Sequence[str | Sequence[ToolCall]]) -> Departure | None:
    session = environment.open()
    wanted = asked(session, task, environment.reference(task))
    return departure(session, task, wanted, played(environment, task, replies))


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([[LOOK], [put("pen")], [put("cup")], OVER, [put("book")], OVER], None),
        # another order, and another lookup
        ([[put("cup"), LOOK, LOOK], [put("pen")], OVER, [put("book")], OVER], None),
        # something else
        ([[put("pen")], [put("plate")], OVER, OVER], (1, [[LOOK, put("cup")], [put("book")]], False)),
        # the same once too often; the reply as a whole is what departs
        ([[LOOK], [put("pen"), put("pen")]], (1, [[put("pen"), put("cup")], [put("book")]], False)),
        # what a later turn asks for
        ([[put("book")]], (0, [[LOOK, put("pen"), put("cup")], [put("book")]], False)),
        # the end of a turn, too early
        ([[put("pen")], OVER], (1, [[LOOK, put("cup")], [put("book")]], True)),
        ([[put("pen")], [put("cup")], OVER, OVER], (3, [[put("book")]], True)),
        # only a lookup is left out
        ([[put("pen")], [put("cup")], OVER, [put("book")], OVER], None),
        # refused, or not readable
        ([[ToolCall("fly")], "<tool_call>{", [put("plate")]], (2, [[LOOK, put("pen"), put("cup")], [put("book")]], False)),
        # cut off before it went wrong
        ([[LOOK]] * ACTING.max_turns, None),
    ],
)  # fmt: skip
def test_a_departure_by_hand(
    replies: Sequence[str | Sequence[ToolCall]], expected: tuple[int, list[list[ToolCall]], bool] | None
) -> None:
    assert departed(Office(), TASK, replies) == (expected and Departure(*expected))


def test_where_nothing_changes_every_call_counts() -> None:
    task = Task.create("office", "seed", ["look"], {}, [[LOOK]])
    assert departed(Office(), task, [[LOOK], OVER]) is None
    assert departed(Office(), task, [OVER]) == Departure(0, [[LOOK]], True)


def test_a_call_that_ends_the_episode_departs_while_something_is_left() -> None:
    task = next(task for task in WORLD.tasks("seed") if len(task.calls) == 3)
    find, change, end = task.calls
    assert departed(WORLD, task, [[find], [change], [end]]) is None
    assert departed(WORLD, task, [[find], [end]]) == Departure(1, [[change, end]], True)
    wrong = ToolCall(end.name, {"answer": "nothing of the kind"})
    assert departed(WORLD, task, [[find], [change], [wrong]]) == Departure(2, [[end]], True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    plan = Rehearsal(0, 0, WORLD.tasks("seed")[:16], [], tmp_path_factory.mktemp("rehearsal"))
    play = partial(playing, config=ACTING, temperature=CONFIG.temperature)
    return make(ROOT / "policies/base", Ground(WORLD, plan, LIMITS, play), CONFIG, OWN)


def test_both_sides_were_played_and_part_in_one_reply(made: Made) -> None:
    turns = made.turns
    assert turns and not made.checked.quarantine
    known = {one.trajectory_id: one for one in [*made.rehearsals, *turns.continued]}
    references = {one.task_id: one for one in made.references}
    kinds = Counter(one.kind for one in made.checked.pairs)
    ends = 0
    for one in made.checked.pairs:
        good, bad, turn = known[one.chosen], known[one.rejected], one.turn
        assert turn is not None and is_success(good.score) and not is_success(bad.score)
        ours, theirs = said(good), said(bad)
        assert ours[:turn] == theirs[:turn] and ours[turn] != theirs[turn]
        if one.kind == FINISHED:
            assert turn == len(ours) - 1 and good.stop_reason is StopReason.DONE
        else:
            assert one.kind == EXPERT and bad in made.rehearsals
            assert ours[turn] in said(references[one.task_id]), "what is preferred is what the reference says there"
            ends += turn == len(theirs) - 1 and bad.stop_reason is StopReason.DONE
    assert 0 < kinds[FINISHED] == ends, "as many teach to end as teach to go on"
    figures = summary(0, made, "").figures
    assert figures["pairs without a turn"] == turns.without < kinds[EXPERT]
    assert figures[f"pairs: {FINISHED}"] == kinds[FINISHED]


def test_pairs_that_part_before_their_turn_go_to_quarantine(made: Made) -> None:
    assert made.turns
    known = {one.trajectory_id: one for one in [*made.rehearsals, *made.turns.continued]}
    spoilt = [replace(one, turn=(one.turn or 0) + 1) for one in made.checked.pairs]
    checked = check(spoilt, known, OWN.margin)
    assert not checked.pairs
    assert all("they part in its turn" in one["expectations"] for one in checked.quarantine)


def test_the_same_again(made: Made, tmp_path: Path) -> None:
    plan = Rehearsal(0, 0, WORLD.tasks("seed")[:16], [], tmp_path)
    play = partial(playing, config=ACTING, temperature=CONFIG.temperature)
    assert make(ROOT / "policies/base", Ground(WORLD, plan, LIMITS, play), CONFIG, OWN) == made
