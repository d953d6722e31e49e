"""Two sides compared: differences, gains and losses."""

from dataclasses import replace

import pytest
from rich.console import Console

from coevolve.commands.compare import WORDS, tables
from coevolve.core.champion import Champion
from coevolve.core.outcomes import Outcome, PanelMetrics, metrics
from coevolve.core.stage_summary import StageSummary
from coevolve.lineage.comparison import Side, differences, gains, history, partly
from coevolve.stages.evaluate.config import Evaluate
from coevolve.stages.report.run_summary import Summary

CONFIG = Evaluate(panels=None, tasks=1, samples=1, temperature=0.0, bootstrap=500, confidence=0.95)
SUMMARY = Summary(
    run="0123",
    environment="e",
    seed=0,
    confidence=0.95,
    champion=Champion("test", 0, []),
    budget={"gradient steps": 40},
    policies=[{}, {}, {}],
    stages=[
        *(StageSummary("validate", t, {"tasks": size}, ["tasks"]) for t, size in enumerate((64, 80, 96))),
        *(StageSummary("train", t, {"gradient steps": 20}, costs=["gradient steps"]) for t in (0, 1)),
        *(StageSummary("signals", t, {"rare": 3, "boundary": t}, ["rare", "boundary"]) for t in (0, 1)),
        *(StageSummary("verify", t, {"pass rate": 0.4 + 0.2 * t}, ["pass rate"]) for t in (0, 1)),
    ],
)


def side(name: str, solved: dict[str, bool], t: int = 2, **params: object) -> Side:
    outcomes = [Outcome("test", task, "f", float(won), won, "done", 1, 1, {}) for task, won in solved.items()]
    return Side(name, t, {"seed": 0, "train": {"beta": 0.1, "steps": 20}, **params}, SUMMARY, outcomes)


def test_only_differing_parameters_are_named() -> None:
    one, other = side("a", {}), side("b", {}, train={"beta": 0.1, "steps": 30}, new=True)
    assert differences([one, other]) == {"train.steps": [20, 30], "new": [None, True]}
    assert differences([one, one]) == {}


def test_tokens_of_failures_count_towards_tokens_per_success() -> None:
    def spent(solved: dict[str, bool]) -> float | None:
        return metrics(side("a", solved).outcomes, CONFIG, 0)["test"].tokens_per_success

    assert spent({"x": True, "y": False, "z": True}) == 1.5
    assert spent({"x": False}) is None


def test_seconds_are_divided_by_successes() -> None:
    took = replace(side("a", {"x": True, "y": False, "z": True}), seconds=3.0)
    assert took.seconds_per_success() == 1.5
    assert replace(took, seconds=None).seconds_per_success() is None
    assert replace(side("a", {"x": False}), seconds=3.0).seconds_per_success() is None


def test_other_differences_of_the_sides_are_named() -> None:
    one, other = replace(side("a", {}), world="miniworld-1"), replace(side("b", {}), world="miniworld-2")
    assert differences([one, other]) == {"version of the environment": ["miniworld-1", "miniworld-2"]}
    moved = replace(one, summary=replace(SUMMARY, arithmetic="x86-64 AVX2"))
    assert differences([one, moved]) == {"arithmetic": [SUMMARY.arithmetic, "x86-64 AVX2"]}


def test_panels_played_differently_are_named() -> None:
    assert partly(side("a", {"x": True, "y": True}), side("b", {"x": False, "y": True})) == []
    (line,) = partly(side("a", {"x": True, "y": True}), side("b", {"y": True, "z": True, "w": False}))
    assert line.startswith("test: a played 2 tasks, b 3, and 1 are the same")
    only = replace(side("b", {"x": True}), outcomes=[])
    (line,) = partly(only, side("a", {"x": True}))
    assert line.startswith("test: b played 0 tasks, a 1, and 0 are the same")


@pytest.mark.parametrize(("tasks", "sure"), [(1, False), (9, False), (10, True)])
def test_gain_over_few_tasks_is_not_sure(tasks: int, sure: bool) -> None:
    names = [str(n) for n in range(tasks)]
    (gain,) = gains(side("a", dict.fromkeys(names, False)), side("b", dict.fromkeys(names, True)), CONFIG)
    assert gain.gain == 1.0 and gain.sure is sure


def test_only_common_tasks_count_and_lost_ones_are_named() -> None:
    (gain,) = gains(
        side("a", {"x": True, "y": True, "z": False, "only": True}),
        side("b", {"x": True, "y": False, "z": True}),
        CONFIG,
    )
    assert (gain.panel, gain.tasks, gain.base, gain.challenger, gain.gain) == ("test", 3, 2 / 3, 2 / 3, 0.0)
    assert gain.regressions == ["y"] and not gain.sure
    assert gains(side("a", {"x": True}), side("b", {"y": True}), CONFIG) == []


def printed(width: int, *sides: Side) -> list[str]:
    """The lines of a comparison in a terminal of ``width`` columns."""
    console = Console(width=width)
    with console.capture() as capture:
        for part in tables(sides):
            console.print(part)
    return capture.get().splitlines()


def test_tokens_and_several_episodes_are_those_of_the_summary() -> None:
    panel = PanelMetrics(3, 0.5, 0.4, 0.6, 0.5, 2.0, 40.0, {}, several={"pass@2": 0.75})
    measured = replace(side("a", {"x": True}), summary=replace(SUMMARY, policies=[{}, {}, {"test": panel}]))
    cells = [line.split() for line in printed(120, measured, side("b", {"x": True}))]
    assert ["test", "80", "-"] in cells and ["test", "pass@2", "0.75", "-"] in cells


def test_every_panel_is_one_line_in_eighty_columns() -> None:
    lost = {str(number): number % 2 > 0 for number in range(99)}
    one = side("an-experiment-of-mine:3", dict.fromkeys(lost, True))
    (row,) = (line for line in printed(80, one, side("another-experiment:12", lost)) if "-0." in line)
    panel, base, other, gain, low, high, *counts = row.split()
    assert (panel, base, other, gain, counts) == ("test", "1.000", "0.495", "-0.505*", ["50", "99", "1"])
    assert -0.65 < float(low) < -0.505 < float(high) < -0.35


def test_two_policies_of_the_same_bytes_are_said_to_be_one() -> None:
    won = {"x": True, "y": False}
    one, same = (replace(side(name, won), digest="1f") for name in "ab")
    assert "b is the same policy as a, byte by byte, so equal evaluations gain 0" in printed(120, one, same)
    for other in (replace(same, digest="2e"), side("b", won)):
        assert not any("byte" in line for line in printed(120, one, other))


def test_instructions_of_lost_tasks_are_shown_as_plain_text() -> None:
    won = {str(number): True for number in range(7)}
    words = {"0": "add [bold]party[/bold]\non monday", "1": "x" * 200}
    lines = printed(200, replace(side("a", won), words=words), side("b", dict.fromkeys(won, False)))
    start = lines.index("b lost 7 tasks on test, among them 5:")
    assert lines[start + 1] == "  0  add [bold]party[/bold] on monday"
    assert lines[start + 2] == f"  1  {'x' * WORDS}" and lines[start + 3] == "  2"
    assert lines[start + 6].startswith("Settings and history"), "costs come after the answer"


def test_history_covers_the_iterations_before_the_policy() -> None:
    whole = side("a", {})
    found = history(whole)
    assert found.pop("pass rate") == pytest.approx(0.5)
    assert found == {
        "tasks trained on": 80, "tasks added by the loop": 16, "gradient steps": 40, "rare": 6, "boundary": 1,
    }  # fmt: skip
    assert history(replace(whole, t=1))["gradient steps"] == 20
    assert history(replace(whole, t=0))["tasks trained on"] == 0


def test_a_gain_of_few_kinds_is_less_certain_than_one_over_tasks() -> None:
    """Half of the kinds are won whole: over tasks the gain is narrow, over kinds it is not, and their number is shown."""
    won = {f"{kind}-{number}": kind < 6 for kind in range(12) for number in range(20)}
    sides = [side("a", dict.fromkeys(won, False)), side("b", won)]
    apart = [
        replace(one, outcomes=[replace(played, category=played.task_id.split("-")[0]) for played in one.outcomes])
        for one in sides
    ]
    (alike,), (gain,) = gains(*sides, CONFIG), gains(*apart, CONFIG)
    assert (alike.kinds, gain.kinds, gain.tasks, gain.gain) == (1, 12, 240, 0.5)
    assert gain.high - gain.low > 3 * (alike.high - alike.low)
    assert any(line.split()[-2:] == ["tasks", "kinds"] for line in printed(80, *apart))
