"""The registry of signal kinds: a kind is one file and one line. Without any signal a run stops."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coevolve.core.attempts import attempt_of
from coevolve.core.errors import CoevolveError
from coevolve.core.records import Signal
from coevolve.core.section import read_yaml
from coevolve.stages.schema import parse
from coevolve.stages.signals import config
from coevolve.stages.signals.config import Signals
from coevolve.stages.signals.extract import KINDS, extract
from coevolve.stages.signals.kind import Firing, Kind
from coevolve.stages.signals.stage import check_start
from coevolve.stages.signals.table import Visit, open_table
from tests import ROOT


class Never:
    """Fires if no attempt at a task ever succeeded."""

    def __init__(self, config: Signals) -> None:
        self._shown: list[str] = []
        self._solved = False

    def see(self, visit: Visit) -> None:
        self._solved |= visit.attempt.successes > 0
        self._shown = visit.failed

    def finding(self) -> Firing | None:
        return None if self._solved else Firing({"solved": 0}, 0.25, self._shown)


NEVER = Kind("never", "It has never solved this task.", "no episode of a task was a success", of_task=Never)


@pytest.fixture
def another(monkeypatch: pytest.MonkeyPatch) -> Kind:
    """Another kind, by its line in the table and its name in the section."""
    monkeypatch.setattr(config, "KINDS", (*config.KINDS, NEVER.name))
    monkeypatch.setitem(KINDS, NEVER.name, NEVER)
    return NEVER


@pytest.fixture
def trajectories(tmp_path: Path) -> Path:
    """Episodes of a task that is never solved, and of a task that is solved once and then fails."""
    rows = [
        {"task_id": task, "step": step, "score": score, "trajectory_id": f"{task}{step}"}
        for task, scores in (("never", (0.0, 0.0)), ("once", (1.0, 0.0)))
        for step, score in enumerate(scores)
    ]
    path = tmp_path / "trajectories.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def extracted(path: Path, kinds: list[str]) -> list[Signal]:
    with open_table(path) as table:
        return list(extract(table, 0, Signals(window=5, rare_threshold=2.0, kinds=kinds)))


def test_every_kind_has_its_name_and_one_rule() -> None:
    assert tuple(KINDS) == config.KINDS
    for name, kind in KINDS.items():
        assert name == kind.name
        assert (kind.of_task is None) != (kind.of_table is None)
        assert kind.meaning.endswith(".") and kind.condition


def test_kind_in_the_table_is_extracted(another: Kind, trajectories: Path) -> None:
    signals = extracted(trajectories, list(KINDS))
    assert [(one.kind, one.task_id, one.strength, one.trajectory_ids) for one in signals] == [
        ("never", "never", 0.25, ["never1"]),
        ("forgetting", "once", 1.0, ["once1", "once0"]),
    ]
    assert [one.kind for one in extracted(trajectories, ["never"])] == ["never"]


def test_kind_in_the_table_is_a_valid_parameter(another: Kind) -> None:
    raw = read_yaml((ROOT / "params.yaml").read_text())
    raw["signals"]["kinds"] = ["never", "rare"]
    assert parse(raw, "params.yaml").signals.kinds == ["never", "rare"]
    raw["signals"]["kinds"] = ["rare", "nver"]
    with pytest.raises(
        CoevolveError, match=r"signals\.kinds\.1: .* unsolved, never \(did you mean 'never'\?\), found 'nver'"
    ):
        parse(raw, "params.yaml")


def test_strength_measures_weakness_by_the_kinds_own_measure(trajectories: Path) -> None:
    rows = [
        {"task_id": task, "step": step, "score": score, "trajectory_id": f"{task}{step}{number}", "calls": [{"name": name, "ok": True}]}
        for task, name, visits in (
            ("even", "common", [[1.0, 0.0]]),
            ("fell", "common", [[1.0, 1.0], [0.0, 0.25]]),
            ("hard", "common", [[0.0] * 8]),
            ("seldom", "seldom", [[1.0]]),
        )
        for step, scores in enumerate(visits)
        for number, score in enumerate(scores)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), trajectories)
    with open_table(trajectories) as table:
        found = list(extract(table, 0, Signals(window=5, rare_threshold=10.0, kinds=list(KINDS))))
    assert {one.kind: one.strength for one in found} == pytest.approx(
        {"boundary": 0.5, "forgetting": 1.0, "unsolved": 0.05 ** (1 / 8), "rare": 1 - 1 / 15 / 0.1}
    )


FAILED = [attempt_of("a", 0, 0, [0.0, 0.0]), attempt_of("b", 0, 1, [0.0, 0.4])]
SOLVED = attempt_of("a", 0, 2, [0.0, 1.0])


def test_no_success_and_no_signal_is_a_one_line_error() -> None:
    with pytest.raises(CoevolveError, match="solved none of 2 tasks and no signal fired") as caught:
        check_start(0, 0, FAILED)
    assert all(way in str(caught.value) for way in ("base.model", "warm.steps", "signals.kinds"))
    assert "\n" not in str(caught.value)


def test_success_or_signal_or_later_iteration_continues() -> None:
    check_start(0, 0, [*FAILED, SOLVED])
    check_start(0, 1, FAILED)
    check_start(1, 0, FAILED)
    check_start(0, 0, [])
