"""The report page: what it shows, that it escapes, and how it behaves in a real browser."""

import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.io import write_json
from coevolve.core.outcomes import PanelMetrics
from coevolve.core.paths import Paths
from coevolve.core.records import Gate, Signal, Verdict
from coevolve.core.reviews import DECISIONS, read_reviews
from coevolve.core.stage_summary import StageSummary
from coevolve.core.task import CallOutcome, Provenance, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.report.champion import Challenge, Champion
from coevolve.stages.report.page.panels import draw
from coevolve.stages.report.page.render import render
from coevolve.stages.report.page.verification import by_indicator, measured, outcomes, selection, unchecked
from coevolve.stages.report.page.view import costs, figures, groups, origins, strength, tools
from coevolve.stages.report.run_summary import Summary
from coevolve.stages.schema import load
from coevolve.stages.verify.select import GATE
from coevolve.stages.watch.watchdogs import indicators
from tests import ROOT

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PANELS = ("validation", "test")


def task(number: int, *names: str, provenance: Provenance | None = None) -> Task:
    calls = [[ToolCall(name) for name in names]]
    return Task.create(
        "e",
        "s",
        [f"do <b>{number}</b> & more, then wait for a day or two before you begin to do it again"],
        {},
        calls,
        ["+".join(names)],
        provenance,
    )


def attempt(one: Task, iteration: int, step: int, sample: int, score: float) -> Trajectory:
    messages = [
        {"role": "user", "content": one.turns[0]},
        {"role": "assistant", "content": "<script>alert(1)</script>"},
        {"role": "tool", "content": "ok " * 1000},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "pay", "arguments": {"x": 1}}}]},
    ]
    name = f"{one.task_id}-{step}-{sample}"
    calls = [CallOutcome("pay", {"x": 1}, True, "ok " * 1000)]
    return Trajectory(
        name,
        one.task_id,
        iteration,
        step,
        0,
        sample,
        messages,
        calls,
        score,
        StopReason.DONE,
        [3],
        {"goal": score > 0.5},
    )


def signal(kind: str, iteration: int, shown: list[str], one: Task | None = None) -> Signal:
    pattern = None if one else ["pay", "find"]
    evidence: dict[str, Any] = {"mixed": 1, "steps": [[0, 1]]} if one else {"count": 2, "total": 90}
    return Signal(f"{kind}{iteration}", kind, iteration, one and one.task_id, pattern, 0.5, evidence, shown)


SEEDS = [task(n, "pay", "end") for n in range(3)]
ADDED = [task(9, "find", "end", provenance=Provenance(0, ["boundary0"], "x"))]
ATTEMPTS = [attempt(one, 0, step, k, float(k % 2)) for step, one in enumerate(SEEDS) for k in range(4)]
SIGNALS = [
    signal("boundary", 0, [ATTEMPTS[0].trajectory_id], SEEDS[0]),
    signal("rare", 0, [ATTEMPTS[4].trajectory_id, ATTEMPTS[0].trajectory_id]),
]


KINDS = ["forgetting", "boundary", "rare"]
OTHER = [CallOutcome("find", {}, True, "ok " * 1000)]
BESIDE = {
    SEEDS[0].task_id: [
        ("reference", replace(attempt(SEEDS[0], 0, 0, -1, 1.0), trajectory_id="r")),
        ("hard negative", replace(attempt(SEEDS[0], 0, 0, 9, 0.25), trajectory_id="h", calls=OTHER)),
    ]
}
ONE = {"policy": 0, "generator": "trained", "success": 0.2, "low": 0.1, "high": 0.3}
GENERATOR = {
    "alpha": 0.5,
    "distances": [ONE, {**ONE, "generator": "not"}],
    "outcomes": [{"t": 0, "outcome": "accepted", "count": 3}, {"t": 0, "outcome": "unreadable", "count": 1}],
    "goals": [{"dataset": 0, "tool": "pay", "tasks": 2, "share": 0.5}],
    "lengths": [{"iteration": 0, "figure": "calls of the reference", "value": 2.0}],
    "realized": [{"probe": 0.5, "training": 0.75, "tasks": 3}],
    "examples": [{"t": 0, "spec": "<spec>{}</spec>", "instruction": "pay <b>", "task_id": "x", "solved": "4 of 8"}],
}
REVIEW = {
    "tasks": [
        {
            "id": f"task{n}",
            "rate": 0.5,
            "turns": [{"words": f'lock "<b>{n}</b>" it\'s mine', "calls": ["lock(app='x')"]}],
        }
        for n in range(4)
    ],
    "rows": [{"gate": "needed", "accept": 1, "reword": 0, "reject": 2}],
    "decisions": DECISIONS,
    "same": 2,
    "total": 3,
}
SUMMARY = Summary(
    run="abc",
    environment="e",
    seed=0,
    confidence=0.95,
    champion=Champion("test", 1, [Challenge(1, 0, 0.3, 0.1, 0.5, 0, True, "why <i>not</i>")]),
    budget={"gradient steps": 1000},
    notes=["a note"],
    policies=[
        {name: PanelMetrics(8, s, s - 0.1, s + 0.1, s, 2.0, 50.0, {"done": 8}) for name in PANELS} for s in (0.4, 0.7)
    ],
    stages=[
        StageSummary("tasks", 0, {"tasks": 3}, ["tasks"]),
        StageSummary("train", 0, {"gradient steps": 1000, "success <&> first": 0.25}, costs=["gradient steps"],
                     plots={"success <&> training": ["success <&> first"]}),
        StageSummary("signals", 0, {"forgetting": 0, "boundary": 1, "rare": 1}, KINDS),
        StageSummary("validate", 1, {"tasks": 4}, ["tasks"]),
    ],
)  # fmt: skip


def verdict(number: int, gate: Gate, rate: float | None) -> Verdict:
    gates = [Gate("readable", True), Gate("words_match", None, "no phrasebook <here>"), gate]
    return Verdict(f"c{number}", f"t{number}", gate.passed is True, gates, rate)


RATES = [0.5, 0.5, 0.0, 0.0, 1.0, 0.25, None]  # of candidates that passed every gate; the first two are kept
VERDICTS = [
    verdict(9, Gate("needed", False, "passes without call 0 (pay)"), None),
    *(verdict(n, Gate(GATE, n < 2, "" if n < 2 else "others are worth more"), rate) for n, rate in enumerate(RATES)),
]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with chdir(tmp_path_factory.mktemp("run")):
        yield values_of_the_page()


def values_of_the_page() -> dict[str, Any]:
    config = load(ROOT / "params.yaml").watch
    values: dict[str, float | None] = {name: 0.55 for name, _ in config} | {"drift": 0.7, "regressions": None}
    for t in range(2):
        later = {**values, "margin": 0.2 if t else None}
        write_json(Paths.watch(t), {one.name: one.as_dict() for one in indicators(later, config)})
    kinds = {one.signal_id: str(one.kind) for one in SIGNALS}
    return {
        "summary": SUMMARY,
        "kinds": strength(SUMMARY),
        "origins": origins([SEEDS, [*SEEDS, *ADDED]], kinds, KINDS),
        "tools": tools([SEEDS, [*SEEDS, *ADDED]]),
        "added": [{"t": 0, "tasks": 1, "families": 1, "new": 1, "most": [("find+end", 1)]}],
        "journey": [{"t": 0, "rows": [{"kind": "boundary", "signals": 1, "explorations": 2, "candidates": 2, "accepted": 1}]}],
        "outcomes": outcomes(0, VERDICTS),
        "unchecked": unchecked(0, VERDICTS),
        "selections": [selection(0, VERDICTS)],
        "generator": GENERATOR,
        "review": REVIEW,
        "quarantine": [],
        "watch": measured(2),
        "stages": figures(SUMMARY),
        "costs": costs(SUMMARY),
        "groups": groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE),
    }  # fmt: skip


@pytest.fixture(scope="module")
def page(view: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "index.html"
    file.write_text(render(view, draw(view)), encoding="utf-8")
    return file


class Text(HTMLParser):
    """Text outside of scripts and styles, and every address in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.addresses, self._open = "", [], ""
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = tag
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self._open not in ("script", "style"):
            self.text += data


def test_it_is_whole_without_javascript_and_asks_for_nothing(page: Path) -> None:
    found = Text()
    found.feed(page.read_text(encoding="utf-8"))
    for said in ("do <b>0</b> & more", "<script>alert(1)</script>", "why <i>not</i>", "passes without call 0 (pay)", "no phrasebook <here>", "a note",
                 "pay({\"x\": 1})", "boundary", "0.700", "find+end (1)", "critical", "1,000", "1 iteration ·",
                 "success <&> first", "0.25", "<spec>{}</spec>", "pay <b>", "on 2 of 3 tasks", "71 tokens/success",
                 "Iteration 0: 7 of 8 candidates passed every gate; the selection kept the 2 most learnable.",
                 "Of the others, the agent solves 2 never, 1 sometimes, 1 always, 1 an unknown number of times.", 'lock "<b>3</b>" it\'s mine'):  # fmt: skip
        assert said in found.text, said
    assert found.tags.count("script") == 1
    assert found.tags.count("svg") >= 11
    assert all(one.startswith(("#", "data:")) for one in found.addresses)
    assert "characters more" in found.text  # long observations are cut


def test_parts_that_a_run_has_nothing_for_are_left_out(view: dict[str, Any]) -> None:
    bare = {**view, "journey": [], "outcomes": [], "selections": [], "watch": [], "groups": [], "generator": None}
    bare["review"] = None
    found = Text()
    found.feed(render(bare, draw(bare)))
    assert set(found.addresses) & {"#signals", "#verification", "#watchdogs", "#generator", "#review"} == set()
    assert "#stages" in found.addresses and "From signals to tasks" not in found.text


def test_the_page_leads_with_result_curve_and_trajectories(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)"', text)[:3] == ["success", "reader", "dataset"]
    found = Text()
    found.feed(text)
    assert found.addresses[1:3] == ["#success", "#reader"]


def test_a_selection_is_no_rejection_and_has_no_riddle(page: Path) -> None:
    found = Text()
    found.feed(page.read_text(encoding="utf-8"))
    assert "others are worth more" not in found.text
    assert "not selected" in page.read_text(encoding="utf-8")  # in the chart


def test_an_indicator_without_a_value_is_not_shown(view: dict[str, Any]) -> None:
    rows = {row["name"]: row["values"] for row in by_indicator(view["watch"])}
    assert "regressions" not in rows
    assert [row and row["value"] for row in rows["margin"]] == [None, 0.2]
    assert rows["drift"][0]["state"] == rows["drift"][1]["state"] == "critical"
    page = render(view, draw(view))
    assert (
        "<th>drift</th>" in page and "<th>regressions</th>" not in page and "unknown" not in page.split("Watchdogs")[1]
    )


def test_a_figure_without_a_value_is_not_shown() -> None:
    summary = replace(SUMMARY, stages=[StageSummary("signals", t, {"rare": t, "idle": None}) for t in range(2)])
    assert figures(summary) == [{"stage": "signals", "names": ["rare"], "rows": [{"t": 0, "values": [0]}, {"t": 1, "values": [1]}], "plots": {}}]  # fmt: skip
    assert figures(replace(SUMMARY, stages=[StageSummary("pairs", 0, {"idle": None})])) == []


def test_the_same_files_give_the_same_page(view: dict[str, Any], page: Path) -> None:
    assert render(view, draw(view)) == page.read_text(encoding="utf-8")


def test_datasets_by_origin_and_tool() -> None:
    kinds = {"boundary0": "boundary"}
    found = origins([SEEDS, [*SEEDS, *ADDED]], kinds, KINDS)
    assert [(one["dataset"], one["origin"], one["tasks"]) for one in found] == [
        (0, "seed tasks", 3), (0, "boundary", 0), (1, "seed tasks", 3), (1, "boundary", 1),
    ]  # fmt: skip
    assert {one["tool"] for one in tools([SEEDS, [*SEEDS, *ADDED]])} == {"pay", "find"}  # `end` is in every task


def test_groups_with_signals_come_first_each_kind_in_turn() -> None:
    found = groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE)
    assert [one["task_id"] for one in found] == [SEEDS[0].task_id, SEEDS[1].task_id, SEEDS[2].task_id]
    assert [one["kind"] for one in found[0]["signals"]] == ["boundary", "rare"]
    assert found[0]["solved"] == 2 and found[0]["count"] == 4
    assert [one["who"] for one in found[0]["attempts"]] == ["reference", "hard negative", "1", "2", "3", "4"]
    assert [one["who"] for one in found[1]["attempts"]] == ["1", "2", "3", "4"]
    assert found[0]["attempts"][2]["shows"] == ["boundary", "rare"] and found[2]["signals"] == []
    assert len(groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 1, {})) == 1


def test_a_failure_is_marked_where_it_parts_from_the_reference() -> None:
    first, second, *_ = groups(ATTEMPTS, SEEDS, SIGNALS, KINDS, 3, BESIDE)
    parts = {one["who"]: one["parts"] for one in first["attempts"]}
    # messages after the first: assistant, tool, assistant. The hard negative's first reply makes another call; a failed attempt
    # makes the reference's call and no more, so that it parts at its end
    assert parts == {"reference": None, "hard negative": 0, "1": 2, "2": None, "3": 2, "4": None}
    assert all(one["parts"] is None for one in second["attempts"]), "nothing is known to part from"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def tab(browser: Any, page: Path) -> Iterator[Any]:
    """The page in a tab; errors and requests that leave the file fail the test."""
    opened = browser.new_page(viewport={"width": 1200, "height": 800})
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("request", lambda request: wrong.append(request.url) if request.url != page.as_uri() and not request.url.startswith("data:") else None)  # fmt: skip
    opened.goto(page.as_uri())
    yield opened
    opened.close()
    assert wrong == []


def shown(tab: Any) -> list[str]:
    return [one.get_attribute("id") for one in tab.query_selector_all(".group") if one.is_visible()]


def test_the_reader_works_by_keyboard(tab: Any) -> None:
    assert shown(tab) == ["g1"]
    tab.keyboard.press("j")
    assert shown(tab) == ["g2"]
    tab.keyboard.press("k")
    tab.keyboard.press("k")
    assert shown(tab) == ["g1"]
    tab.focus("#g1 .attempt >> nth=0")
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "attempt 1, failed"
    tab.keyboard.press("ArrowLeft")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "hard negative, failed"


def test_the_reader_filters(tab: Any) -> None:
    tab.select_option("#kind", "boundary")
    assert shown(tab) == ["g1"]
    assert tab.inner_text("#place") == "1 of 1"
    tab.select_option("#kind", "forgetting")
    assert shown(tab) == []
    assert tab.inner_text("#place") == "no such task"
    tab.select_option("#kind", "")
    tab.select_option("#task", index=2)
    assert shown(tab) == ["g3"]
    assert tab.is_disabled("#next")


def test_a_chart_says_its_values_under_the_pointer(tab: Any) -> None:
    tab.hover("#success .chart [aria-roledescription=point] >> nth=-1", force=True)
    assert "success: 0.7; panel: test" in tab.inner_text("#tip")


def test_it_fits_a_phone(browser: Any, page: Path) -> None:
    tab = browser.new_page(viewport={"width": 360, "height": 740})
    tab.goto(page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.close()


def test_without_javascript_every_group_is_there(browser: Any, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert shown(tab) == ["g1", "g2", "g3"]
    assert not tab.is_visible("#picker")
    context.close()


def test_decisions_are_saved_as_a_file_that_validate_reads(
    browser: Any, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = browser.new_page(viewport={"width": 1200, "height": 800}, accept_downloads=True)
    tab.goto(page.as_uri())
    items = tab.locator(".review > li")
    tab.locator("#asked > summary").click()
    assert tab.locator("#download").is_disabled()
    items.nth(0).get_by_label("accept").check()
    items.nth(1).get_by_label("reject").check()
    items.nth(2).get_by_label("reword").check()
    tab.locator("#reviewer").fill("ada")
    assert tab.locator("#decided").inner_text() == "1"  # no reason, and no new words yet
    items.nth(1).get_by_label("why").fill("odd")
    items.nth(2).get_by_label("new words").fill("lock what is mine")
    assert tab.locator("#decided").inner_text() == "3"
    (tmp_path / "reviews").mkdir()
    with tab.expect_download() as download:
        tab.locator("#download").click()
    assert download.value.suggested_filename == "ada.jsonl"
    download.value.save_as(tmp_path / "reviews" / "ada.jsonl")
    tab.close()
    monkeypatch.chdir(tmp_path)
    found = [(one.task_id, one.decision, one.reviewer, one.reason, one.turns) for one in read_reviews()]
    assert found == [
        ("task0", "accept", "ada", "", []),
        ("task1", "reject", "ada", "odd", []),
        ("task2", "reword", "ada", "", ["lock what is mine"]),
    ]
