"""`coevolve study` without runs: the messages on arms and results that are not of the study as it is now."""

import argparse
import fcntl
from pathlib import Path

import pytest

from coevolve.commands import study as command
from coevolve.core import dvc
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl
from coevolve.studies.study_results import Result

STUDY = """\
question: Does it matter?
seeds: [0, 1]
panel: validation
against: [plain]
arms:
  plain: {}
  old: {grpo.unsolved_groups: 4}
"""


def study(folder: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args([str(folder), *words]))


@pytest.mark.parametrize("way", ["--plan", "--report"])
def test_an_arm_with_a_removed_key_keeps_its_results_and_gets_no_runs(
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
    assert study(tmp_path, way) == 0
    shown = capsys.readouterr()
    message = "arm old gets no runs, and its results stay: its parameters: "
    assert message in shown.err and shown.err.count("\n") == 1
    if way == "--plan":
        assert "3 runs, 0 to run" in shown.out
    else:
        assert "3 of 3 runs" in shown.out and "| old | 1 |" in (tmp_path / "table.md").read_text()


def report(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Output and errors of `coevolve study --report` with ``text`` as study.yaml."""
    (folder / "study.yaml").write_text(text)
    assert study(folder, "--report") == 0
    return capsys.readouterr()


PLAIN = STUDY.replace("  old: {grpo.unsolved_groups: 4}\n", "")
CUT = {"panel": "validation", "subsets": {"mail": ["find_mail"]}}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("  plain: {explore.guidance: random}\n", "plain 0 ran with {}, not {'explore.guidance': 'random'}"),
        ("  plain: {}\nsubsets: {mail: [send_mail]}\n", "plain 0 has other subsets"),
        ("  plain: {}\nsubsets: {files: [find_file]}\n", "plain 0 has no success on files"),
        (
            "  plain: {}\nclaims: [{arm: plain, over: before training, panel: hard, mean: 0.0, clear: 0.0}]\n",
            "no success on hard",
        ),
    ],
)
def test_results_of_another_study_are_ignored_and_kept_in_the_file(
    now: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    success = {"validation": [0.5, 0.6], "mail": [0.5, 0.6]}
    write_jsonl(tmp_path / "results.jsonl", [Result("plain", seed, success, {}, [], cut=CUT) for seed in (0, 1)])
    before = (tmp_path / "results.jsonl").read_bytes()
    assert "2 of 2 runs" in report(tmp_path, PLAIN, capsys)[0]
    out, err = report(tmp_path, PLAIN.replace("  plain: {}\n", now), capsys)
    assert "0 of 2 runs" in out and "2 results are not of the study as it is now" in err and said in err
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_results_of_a_deleted_arm_stay_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Result(arm, 0, {"validation": [0.5, 0.6]}, {}, []) for arm in ("plain", "gone")]
    write_jsonl(tmp_path / "results.jsonl", rows)
    before = (tmp_path / "results.jsonl").read_bytes()
    assert "1 of 2 runs" in report(tmp_path, PLAIN, capsys)[0]
    assert "gone" not in (tmp_path / "table.md").read_text()
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_two_commands_cannot_queue_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(dvc, "root", lambda: tmp_path)
    with (
        (tmp_path / "scratch").joinpath(f".study-{tmp_path.name}.lock").open("w") as other,
        pytest.raises(CoevolveError, match="another `coevolve study` makes runs here"),
    ):
        fcntl.flock(other, fcntl.LOCK_EX)
        study(tmp_path)
