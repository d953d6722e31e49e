"""`coevolve study` without runs: its words on arms that set removed parameters."""

import argparse
import fcntl
from pathlib import Path

import pytest

from coevolve.commands import study as command
from coevolve.core import dvc
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl
from coevolve.readers.study_results import Result

STUDY = """\
question: Does it matter?
seeds: [0, 1]
panel: validation
against: [plain]
arms:
  plain: {}
  old: {grpo.unsolved_groups: 4}
"""


@pytest.mark.parametrize("way", ["--plan", "--report"])
def test_an_arm_that_sets_a_removed_key_keeps_its_results_and_has_no_more_runs(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    arms: list[tuple[str, int, dict[str, int]]] = [
        ("plain", 0, {}), ("plain", 1, {}), ("old", 0, {"grpo.unsolved_groups": 4})
    ]  # fmt: skip
    write_jsonl(
        tmp_path / "results.jsonl",
        [Result(arm, seed, {"validation": [0.5, 0.6]}, {}, [], changes=changes) for arm, seed, changes in arms],
    )
    parser = argparse.ArgumentParser()
    command.configure(parser)
    assert command.run(parser.parse_args([str(tmp_path), way])) == 0
    shown = capsys.readouterr()
    message = "arm old sets grpo.unsolved_groups, which coevolve no longer has: its results stay, it gets no more runs"
    assert message in shown.err and shown.err.count("\n") == 1
    if way == "--plan":
        assert "3 runs, 0 to run" in shown.out
    else:
        assert "3 of 3 runs" in shown.out and "| old | 1 |" in (tmp_path / "table.md").read_text()


def test_two_commands_do_not_queue_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(dvc, "root", lambda: tmp_path)
    parser = argparse.ArgumentParser()
    command.configure(parser)
    with (
        (tmp_path / "scratch").joinpath(f".study-{tmp_path.name}.lock").open("w") as other,
        pytest.raises(CoevolveError, match="another `coevolve study` makes runs here"),
    ):
        fcntl.flock(other, fcntl.LOCK_EX)
        command.run(parser.parse_args([str(tmp_path)]))
