"""An exception of the environment rejects one candidate, and is counted by its cause."""

from collections.abc import Sequence

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.task import Task, ToolCall
from coevolve.endpoint.spending import Meter
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.rollout import Limits
from coevolve.stages.synthesize.config import Synthesize
from coevolve.stages.synthesize.synthesizer import candidates_of
from coevolve.stages.verify import candidates
from coevolve.stages.verify.judge import Judged, interruptions, summary
from coevolve.stages.verify.pass_rates import pass_counts, with_pass_rates
from tests.unit.environments import unruly
from tests.unit.stages.explore.test_explore import outcome

LIMITS = Limits(16, 512, 64, 30.0)


def judged(habit: str) -> list[Judged]:
    """The verdicts on a task for each pair of switches."""
    pairs = [(one, other) for one in unruly.NAMES for other in unruly.NAMES if one != other]
    tasks = [
        Task.create(
            *("switches", "made", [f"press the {one} and press the {other}"], {}),
            [[ToolCall("press", {"name": one}), ToolCall("press", {"name": other})]],
        )
        for one, other in pairs
    ]
    return candidates.verify(f"{unruly.__name__}:{habit}", tasks)


def test_candidates_that_break_their_session_are_rejected_and_counted() -> None:
    found = judged("Fragile")
    broken = [one for one in found if one.cause]
    assert len(broken) == 26, "those that press one of the two bad switches"
    assert {gate.reason for one in broken for gate in one.verdict.gates if gate.passed is False} == {
        "RuntimeError: the bulb is gone"
    }
    note = "26 of 56 candidates broke: RuntimeError: the bulb is gone"
    assert interruptions(found) == [note] == summary(0, found, Meter(None), interruptions(found)).notes[:1]
    assert interruptions(judged("Switches")) == []


def test_an_environment_that_leaves_the_program_rejects_candidates() -> None:
    assert interruptions(judged("Leaving")) == ["56 of 56 candidates broke: SystemExit: 3"]


def test_interrupted_episodes_of_the_policy_are_counted() -> None:
    (tasks,) = ([one.task for one in judged("Switches") if one.task is not None],)
    house = unruly.Fragile()
    counts = pass_counts(ReferencePolicy(house), house, tasks, LIMITS, 2, 0, lambda count: None)
    (note,) = interruptions(with_pass_rates([one for one in judged("Switches") if one.verdict.accepted], counts))
    assert note.endswith("episodes broke: RuntimeError: the bulb is gone")


def test_explorations_that_break_when_they_are_repeated_give_no_candidate_and_are_counted() -> None:
    explored, _ = outcome(unruly.Switches)
    count, said = made(unruly.Fragile(), explored)
    assert count > 0 and said[0].endswith("explorations broke when they were repeated: RuntimeError: the bulb is gone")

    def later(session: unruly.SwitchSession, task: Task) -> None:
        if task.split == "exploration":
            raise RuntimeError("no second time")

    with pytest.raises(
        CoevolveError, match=f"{len(explored)} of {len(explored)} explorations broke: RuntimeError: no sec"
    ):
        made(unruly.with_habit("reset", later)(), explored)


def made(environment: unruly.Switches, explored: Sequence[object]) -> tuple[int, list[str]]:
    """The number of candidates from ``explored``, and the notes."""
    tasks = environment.tasks("seed")
    found, notes = candidates_of(
        environment,
        tasks,
        explored,
        Synthesize(),
        500,
        0,
        Meter(None),
        lambda count: None,  # type: ignore[arg-type]
    )
    return len(found), notes
