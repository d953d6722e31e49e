"""The report page: its content and its escaping."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from coevolve.core.records import Generation
from coevolve.core.task import Provenance, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.generate.spec import exploration_of
from coevolve.stages.report.page.reader import added, groups
from coevolve.stages.report.write import render
from tests.unit.stages.report.example import ADDED, ATTEMPTS, BESIDE, KINDS, SEEDS, SIGNALS, SUMMARY, attempt


def grown(words: str, exploration: str) -> Task:
    return Task.create("e", "s", [words], {}, [[ToolCall("pay")]], ["pay"], Provenance(0, [], exploration))


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
    for said in ("do <b>0</b> & more", "<script>alert(1)</script>", "why <i>not</i>", "a note", "pay(x=1)", "0.700",
                 "1 iteration ·", "find → end", "25 %", "another <b>note</b>"):  # fmt: skip
        assert said in found.text, said
    assert found.tags.count("script") == 1 and found.tags.count("svg") == 1
    assert all(one.startswith(("#", "data:")) for one in found.addresses)
    assert "characters more" in found.text  # long observations are cut


def test_page_begins_with_result_curve_and_trajectories(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', text) == ["success", "reader", "dataset", "warnings"]
    assert Text(text).text.index("2 warnings: read before you trust") < Text(text).text.index("after t iterations")


def test_signals_of_a_group_are_a_list(page: Path) -> None:
    assert "<li>pay &gt; find <small>(count 2, total 90)</small></li>" in page.read_text(encoding="utf-8")


def test_new_task_shows_its_origin_and_leads_to_the_failure(page: Path) -> None:
    text = page.read_text(encoding="utf-8").split('id="dataset"')[1]
    assert "Iteration 0 added 1 tasks, with 1 new families: 1 from boundary" in text
    assert '<a href="#g1">read the failure</a>' in text


def test_origins_of_new_tasks_are_signals_the_generator_or_none() -> None:
    spec = Generation("g", 0, "s", "p", "<spec>", None, None, "accepted", None, 0, 0)
    made, chance = (grown("made", exploration_of(spec)), grown("chance", "x"))
    found = added(SEEDS, [*SEEDS, *ADDED, made, chance], SIGNALS, [spec], {})
    assert found["origins"] == [("boundary", 1), ("the generator", 1), ("no signal", 1)]
    about = {row["origin"]: row["about"] for row in found["shown"]}
    assert about == {"boundary": SEEDS[0].turns[0], "the generator": "", "no signal": ""}


def test_calls_in_replies_are_written_as_a_person_writes_them() -> None:
    call, broken = (
        '<tool_call>{"name": "pay", "arguments": {"to": "Ann", "x": 1}}</tool_call>',
        "<tool_call>pay</tool_call>",
    )
    said = [{"role": "user", "content": ""}, {"role": "assistant", "content": f"{call} and {broken}"}]
    (found,) = groups([replace(ATTEMPTS[0], messages=said)], SEEDS, [], KINDS, 1, {})
    assert found["attempts"][0]["turns"][0]["text"] == f'pay(to="Ann", x=1) and {broken}'


def test_groups_with_signals_come_first_with_kinds_alternating() -> None:
    found = groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE)
    assert [one["first"].task_id for one in found] == [SEEDS[0].task_id, SEEDS[1].task_id, SEEDS[2].task_id]
    assert [one["kind"] for one in found[0]["signals"]] == ["boundary", "rare"]
    assert found[0]["solved"] == 2 and found[0]["count"] == 4
    assert [one["who"] for one in found[0]["attempts"]] == ["reference", "hard negative", "1", "2", "3", "4"]
    assert [one["who"] for one in found[1]["attempts"]] == ["1", "2", "3", "4"]
    assert found[0]["attempts"][2]["shows"] == ["boundary", "rare"] and found[2]["signals"] == []
    assert len(groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 1, {})) == 1


def failed_by_environment(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, score=0.0, stop_reason=StopReason.ENVIRONMENT_FAILED, checks={}, calls=[])


def test_attempt_that_the_environment_failed_is_not_the_agents_failure() -> None:
    solved, *others = (attempt(SEEDS[0], 0, 0, sample, 1.0) for sample in range(4))
    group = [solved, *map(failed_by_environment, others)]
    weaker = [attempt(SEEDS[1], 0, 1, sample, 0.25) for sample in range(4)]
    lost = [failed_by_environment(attempt(SEEDS[2], 0, 2, sample, 0.0)) for sample in range(4)]
    found = groups([*group, *weaker, *lost], SEEDS, [], KINDS, 3, BESIDE)
    assert [one["first"].task_id for one in found] == [task.task_id for task in (SEEDS[1], SEEDS[0], SEEDS[2])]
    assert [(one["solved"], one["count"]) for one in found] == [(0, 4), (1, 1), (0, 0)]
    attempts = found[1]["attempts"][2:]
    assert [one["outcome"] for one in attempts] == ["solved", *["not counted"] * 3]
    assert {one["outcome"] for one in found[0]["attempts"]} == {"failed"}
    assert all(one["parts"] is None for one in attempts)
    page = Text(render(SUMMARY, "", found, []))
    assert "2 · not counted" in page.text and "2 · failed · 0.00" not in page.text.split(SEEDS[0].task_id)[1]


def test_failure_is_marked_where_it_departs_from_the_reference() -> None:
    first, second, *_ = groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE)
    parts = {one["who"]: one["parts"] for one in first["attempts"]}
    # messages after the first: assistant, tool, assistant. The hard negative's first reply makes another call; a failed attempt
    # makes the reference's call and no more, so that it parts at its end
    assert parts == {"reference": None, "hard negative": 0, "1": 2, "2": None, "3": 2, "4": None}
    assert all(one["parts"] is None for one in second["attempts"]), "nothing is known to part from"
