"""The behaviour of the report page in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


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
    """The page in a tab. JavaScript errors and network requests fail the test."""
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


def test_reader_works_by_keyboard(tab: Any) -> None:
    assert shown(tab) == ["g1"]
    tab.keyboard.press("j")
    assert shown(tab) == ["g2"]
    tab.keyboard.press("k")
    tab.keyboard.press("k")
    assert shown(tab) == ["g1"]
    tab.focus("#g1 .attempt >> nth=0")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "hard negative, failed"


def test_reader_filters_groups(tab: Any) -> None:
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


def test_new_task_leads_to_the_failure_that_it_grew_from(tab: Any) -> None:
    tab.select_option("#kind", "rare")
    tab.keyboard.press("j")
    tab.click("text=read the failure")
    assert shown(tab) == ["g1"]


def test_page_fits_a_phone(browser: Any, page: Path) -> None:
    tab = browser.new_page(viewport={"width": 360, "height": 740})
    tab.goto(page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    tab.close()


def test_every_group_is_visible_without_javascript(browser: Any, page: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page.as_uri())
    assert shown(tab) == ["g1", "g2", "g3"]
    assert not tab.is_visible("#picker")
    context.close()
