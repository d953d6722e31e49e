"""Which episodes become pairs."""

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.params import Pairs
from coevolve.core.records import StopReason, Trajectory
from coevolve.core.task import CallOutcome
from coevolve.stages.pairs.choose import EXPERT, OWN, choose

CONFIG = Pairs(rank="closeness", margin=0.1, per_task=4, expert=True)


def episode(name: str, task: str, call: str, success: bool) -> Trajectory:
    made = [CallOutcome(call, {}, True)]
    return Trajectory(name, task, 0, 0, 0, 0, [], made, float(success), StopReason.DONE)


played = st.lists(
    st.tuples(
        st.sampled_from("tu"), st.sampled_from("abcdef"), st.booleans(), st.sampled_from([0.0, 0.5, 0.85, 0.9, 0.95])
    ),
    max_size=30,
)


@given(played, st.booleans(), st.integers(1, 5))
def test_what_every_choice_holds(rows: list[tuple[str, str, bool, float]], expert: bool, most: int) -> None:
    episodes = [episode(str(n), task, call, success) for n, (task, call, success, _) in enumerate(rows)]
    ranks = {str(n): rank for n, (_, _, success, rank) in enumerate(rows) if not success}
    references = {"t": episode("reference", "t", "a", True)}
    config = CONFIG.model_copy(update={"expert": expert, "per_task": most})
    pairs = choose(episodes, references, ranks, config, 0, 2)
    assert pairs == choose(episodes, references, ranks, config, 0, 2)
    known = {one.trajectory_id: one for one in [*episodes, *references.values()]}
    for one in pairs:
        chosen, rejected = known[one.chosen], known[one.rejected]
        assert chosen.task_id == rejected.task_id == one.task_id
        assert chosen.score == 1.0 and rejected.score == 0.0
        assert one.closeness == ranks[one.rejected] <= 1 - config.margin
        assert one.kind == (EXPERT if one.chosen == "reference" else OWN)
    assert expert or all(one.kind == OWN for one in pairs)
    for task in "tu":
        ours = [one for one in pairs if one.task_id == task]
        assert len(ours) <= most
        assert len({known[one.rejected].calls[0].name for one in ours}) == len(ours), "no failure twice"
        right = {row[1] for row in rows if row[0] == task and row[2]} | ({"a"} if expert and task == "t" else set())
        wrong = {row[1] for row in rows if row[0] == task and not row[2] and row[3] <= 0.9} - right
        assert len(ours) == (min(most, len(wrong)) if right else 0)
        chosen_calls = [known[one.chosen].calls[0].name for one in ours]
        assert len(set(chosen_calls)) == min(len(right), len(ours)), "right episodes take turns"


def test_a_failure_too_close_or_without_a_rank_makes_no_pair() -> None:
    references = {"t": episode("reference", "t", "a", True)}
    episodes = [episode("1", "t", "b", False), episode("2", "t", "c", False), episode("3", "t", "d", False)]
    (pair,) = choose(episodes, references, {"1": 0.95, "2": 0.9}, CONFIG, 0, 0)
    assert pair.rejected == "2"
