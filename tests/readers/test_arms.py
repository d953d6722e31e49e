"""Whether a run had the parameters of its arm, whichever of the two files said so."""

from typing import Any

import pytest

from coevolve.readers.arms import departure, parameters

THEN = {
    "seed": 0,
    "explore": {"count": 256, "guidance": "signals"},
    "verify": {"select": None},
    "report": {"panel": "a"},
}
NOW = {
    "seed": 1,
    "explore": {"count": 768, "guidance": "signals"},
    "verify": {"select": {"keep": 8}},
    "report": {"panel": "b"},
}


@pytest.mark.parametrize(
    ("ran", "arm", "found"),
    [
        ({}, {"explore.count": 256, "verify.select": None}, None),  # pinned to what was the default
        ({"explore.count": 768, "verify.select": {"keep": 8}}, {}, None),  # what it changed is the default now
        ({"explore.count": 768}, {"verify.select": None}, None),
        ({}, {}, "explore.count 256, not 768"),
        ({"explore.count": 768}, {}, "verify.select None, not {'keep': 8}"),
        ({"verify.select": {"keep": 9}}, {"explore.count": 256}, "verify.select.keep 9, not 8"),
        (
            {},
            {"explore.count": 256, "verify.select": None, "explore.guidance": "random"},
            "explore.guidance signals, not random",
        ),
        ({"explore.other": 1}, {"explore.count": 256, "verify.select": None}, None),  # a key that is no more
        ({"seed": 7, "report.panel": "c"}, {"explore.count": 256, "verify.select": None}, None),
    ],
)
def test_a_run_is_its_arm_s_by_all_its_parameters(ran: dict[str, Any], arm: dict[str, Any], found: str | None) -> None:
    assert departure(parameters(THEN, ran), parameters(NOW, arm)) == found


def test_changes_leave_the_file_as_it_was() -> None:
    made = parameters(THEN, {"explore.count": 1, "train.steps": 2})
    assert made["explore"] == {"count": 1, "guidance": "signals"} and made["train"] == {"steps": 2}
    assert THEN["explore"] == {"count": 256, "guidance": "signals"}
