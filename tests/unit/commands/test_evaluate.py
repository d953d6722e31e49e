"""The table of `coevolve evaluate`."""

import pytest

from coevolve.commands.evaluate import show
from coevolve.core.outcomes import Outcome
from coevolve.stages.evaluate.config import Evaluate

CONFIG = Evaluate(panels=None, tasks=2, samples=4, temperature=1.0, bootstrap=50, confidence=0.95)


def test_pass_at_k_is_blank_for_tasks_that_lack_episodes(capsys: pytest.CaptureFixture[str]) -> None:
    """The environment failed in one episode of `broken`. All other episodes succeeded."""
    episodes = {"broken": 3, "whole": 4}
    outcomes = [
        Outcome("test", name, name, 1.0, True, "done", 1, 1, {})
        for name, count in episodes.items()
        for _ in range(count)
    ]
    show("test", outcomes, set(), CONFIG, 0)
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    place = rows["category"].index("pass@4") - len(rows["category"])
    assert [rows[name][place] for name in ("broken", "whole", "all", "mean")] == ["–", "1.000", "1.000", "1.000"]


def test_all_counts_tasks_and_mean_counts_categories(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [Outcome("test", str(n), "rare" if n else "often", 1.0, n == 0, "done", 1, 1, {}) for n in (0, 1, 2, 3)]
    show("test", outcomes, set(), CONFIG.model_copy(update={"samples": 1}), 0)
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert (rows["all"][1:3], rows["mean"][1]) == (["4", "0.250"], "0.500")
