"""The report page: its content and its escaping."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.report.page.panels import draw
from coevolve.stages.report.page.view import groups, origins
from coevolve.stages.report.write import render
from tests.unit.stages.report.example import ADDED, ATTEMPTS, BESIDE, KINDS, SEEDS, SIGNALS, attempt


class Text(HTMLParser):
    """Text outside scripts and styles, and every address in an attribute."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.addresses, self._open = "", [], ""
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self._open not in ("script", "style"):
            self.text += data


def test_page_is_complete_without_javascript_and_requests_nothing(page: Path) -> None:
    found = Text(page.read_text(encoding="utf-8"))
    for said in ("do <b>0</b> & more", "<script>alert(1)</script>", "why <i>not</i>", "passes without call 0 (pay)", "no phrasebook <here>", "a note",
                 "pay(x=1)", "boundary", "0.700", "find+end (1)", "critical", "1 iteration ·",
                 "<spec>{}</spec>", "pay <b>",
                 "Iteration 0: 7 of 8 candidates passed every gate; the selection kept the 2 most learnable.",
                 "Of the others, the agent solves 2 never, 1 sometimes, 1 always, 1 an unknown number of times."):  # fmt: skip
        assert said in found.text, said
    assert found.tags.count("script") == 1
    assert found.tags.count("svg") >= 5
    assert all(one.startswith(("#", "data:")) for one in found.addresses)
    assert "characters more" in found.text  # long observations are cut


def test_sections_without_data_are_left_out(view: dict[str, Any]) -> None:
    bare = {**view, "journey": [], "outcomes": [], "selections": [], "watch": [], "groups": [], "generator": None}
    found = Text(render(bare, draw(bare)))
    assert set(found.addresses) & {"#signals", "#verification", "#watchdogs", "#generator"} == set()
    assert "#dataset" in found.addresses and "From signals to tasks" not in found.text


def test_page_begins_with_result_curve_and_trajectories(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', text)[:3] == ["success", "reader", "dataset"]
    found = Text(text)
    assert found.addresses[1:3] == ["#success", "#reader"]
    assert found.text.index("after t iterations") < found.text.index("a note") < found.text.index("Read trajectories")


def test_calls_in_replies_are_written_as_a_person_writes_them() -> None:
    call, broken = (
        '<tool_call>{"name": "pay", "arguments": {"to": "Ann", "x": 1}}</tool_call>',
        "<tool_call>pay</tool_call>",
    )
    said = [{"role": "user", "content": ""}, {"role": "assistant", "content": f"{call} and {broken}"}]
    (found,) = groups([replace(ATTEMPTS[0], messages=said)], SEEDS, [], KINDS, 1, {})
    assert found["attempts"][0]["turns"][0]["text"] == f'pay(to="Ann", x=1) and {broken}'


def test_selection_is_not_shown_as_a_rejection(page: Path) -> None:
    found = Text(page.read_text(encoding="utf-8"))
    assert "others are worth more" not in found.text
    assert "not selected" in page.read_text(encoding="utf-8")  # in the chart


def test_indicator_without_a_value_is_not_shown(view: dict[str, Any], charts: dict[str, str]) -> None:
    rows = {row["name"]: row["values"] for row in view["watch"]}
    assert "regressions" not in rows
    assert [row and row.value for row in rows["margin"]] == [None, 0.2]
    assert rows["drift"][0].state == rows["drift"][1].state == "critical"
    page = render(view, charts)
    assert (
        "<th>drift</th>" in page and "<th>regressions</th>" not in page and "unknown" not in page.split("Watchdogs")[1]
    )


def test_datasets_are_split_by_origin() -> None:
    kinds = {"boundary0": "boundary"}
    found = origins([SEEDS, [*SEEDS, *ADDED]], kinds, KINDS)
    assert [(one["dataset"], one["origin"], one["tasks"]) for one in found] == [
        (0, "seed tasks", 3), (0, "boundary", 0), (1, "seed tasks", 3), (1, "boundary", 1),
    ]  # fmt: skip


def test_groups_with_signals_come_first_with_kinds_alternating() -> None:
    found = groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE)
    assert [one["task_id"] for one in found] == [SEEDS[0].task_id, SEEDS[1].task_id, SEEDS[2].task_id]
    assert [one["kind"] for one in found[0]["signals"]] == ["boundary", "rare"]
    assert found[0]["solved"] == 2 and found[0]["count"] == 4
    assert [one["who"] for one in found[0]["attempts"]] == ["reference", "hard negative", "1", "2", "3", "4"]
    assert [one["who"] for one in found[1]["attempts"]] == ["1", "2", "3", "4"]
    assert found[0]["attempts"][2]["shows"] == ["boundary", "rare"] and found[2]["signals"] == []
    assert len(groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 1, {})) == 1


def failed_by_environment(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, score=0.0, stop_reason=StopReason.ENVIRONMENT_FAILED, checks={}, calls=[])


def test_attempt_that_the_environment_failed_is_not_the_agents_failure(
    view: dict[str, Any], charts: dict[str, str]
) -> None:
    solved, *others = (attempt(SEEDS[0], 0, 0, sample, 1.0) for sample in range(4))
    group = [solved, *map(failed_by_environment, others)]
    weaker = [attempt(SEEDS[1], 0, 1, sample, 0.25) for sample in range(4)]
    lost = [failed_by_environment(attempt(SEEDS[2], 0, 2, sample, 0.0)) for sample in range(4)]
    found = groups([*group, *weaker, *lost], SEEDS, [], KINDS, 3, BESIDE)
    assert [one["task_id"] for one in found] == [task.task_id for task in (SEEDS[1], SEEDS[0], SEEDS[2])]
    assert [(one["solved"], one["count"]) for one in found] == [(0, 4), (1, 1), (0, 0)]
    attempts = found[1]["attempts"][2:]
    assert [one["outcome"] for one in attempts] == ["solved", *["not counted"] * 3]
    assert {one["outcome"] for one in found[0]["attempts"]} == {"failed"}
    assert all(one["parts"] is None for one in attempts)
    page = Text(render({**view, "groups": found}, charts))
    assert "2 · not counted" in page.text and "2 · failed · 0.00" not in page.text.split(SEEDS[0].task_id)[1]


def test_uncounted_later_group_does_not_hide_an_earlier_group() -> None:
    earlier = [attempt(SEEDS[0], 0, 0, sample, 1.0) for sample in range(2)]
    later = [failed_by_environment(attempt(SEEDS[0], 0, 1, sample, 0.0)) for sample in range(2)]
    (found,) = groups([*earlier, *later], SEEDS, [], KINDS, 3, {})
    assert (found["step"], found["solved"], found["count"]) == (0, 2, 2)


def test_failure_is_marked_where_it_departs_from_the_reference() -> None:
    first, second, *_ = groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE)
    parts = {one["who"]: one["parts"] for one in first["attempts"]}
    # messages after the first: assistant, tool, assistant. The hard negative's first reply makes another call; a failed attempt
    # makes the reference's call and no more, so that it parts at its end
    assert parts == {"reference": None, "hard negative": 0, "1": 2, "2": None, "3": 2, "4": None}
    assert all(one["parts"] is None for one in second["attempts"]), "nothing is known to part from"
