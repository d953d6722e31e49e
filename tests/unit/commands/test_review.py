"""`coevolve review`: answers from a terminal become decisions on disk, one by one."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from coevolve.cli import parser
from coevolve.commands.review import run
from coevolve.core.errors import CoevolveError
from coevolve.core.io import write_jsonl
from coevolve.core.paths import Paths
from coevolve.core.records import Candidate, Gate, Verdict
from coevolve.core.reviews import read_reviews
from coevolve.core.task import Task, ToolCall
from coevolve.stages.verify.select import GATE


def candidate(number: int, turns: int = 1) -> Candidate:
    words = [f"lock {number} of {turn}" for turn in range(turns)]
    calls = [[ToolCall("lock", {"app": "wallet"})] for _ in range(turns)]
    return Candidate(f"c{number}", Task.create("miniworld", "x", words, {"seed": number}, calls), [[0, 0]])


CANDIDATES = [*(candidate(number) for number in range(6)), candidate(6, turns=2)]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Iteration 0 has five accepted tasks of one turn, a refused one, and one of two turns."""
    monkeypatch.chdir(tmp_path)
    verdicts = [
        Verdict(one.candidate_id, one.task.task_id, number != 5, [Gate("needed", number != 5, "")], 0.5)
        for number, one in enumerate(CANDIDATES)
    ]
    write_jsonl(Paths.tasks(0), [])
    write_jsonl(Paths.candidates(0), CANDIDATES)
    write_jsonl(Paths.verified(0) / "verdicts.jsonl", verdicts)
    return tmp_path


def answer(monkeypatch: pytest.MonkeyPatch, lines: str, *arguments: str) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    return run(parser(["review"]).parse_args(["review", "--reviewer", "ada", *arguments]))


def test_each_answer_is_a_decision_and_a_task_comes_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(monkeypatch, "a\nr odd words\nr\nw\nx y\ns\nq\n") == 0
    first = read_reviews()
    assert [(one.decision, one.reason) for one in first] == [("accept", ""), ("reject", "odd words")]
    assert capsys.readouterr().out.count("expected a, r WHY, w NEW WORDS") == 3
    answer(monkeypatch, "a\n" * 9)
    assert {one.task_id for one in read_reviews()} == {one.task.task_id for one in CANDIDATES} - {
        CANDIDATES[5].task.task_id
    }
    assert read_reviews()[:2] == first
    answer(monkeypatch, "a\n")
    assert "0 accepted tasks" in capsys.readouterr().out


def test_what_was_refused_can_be_looked_at(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer(monkeypatch, "a\n", "--rejected")
    assert "refused by needed" in " ".join(capsys.readouterr().out.split())
    assert [one.task_id for one in read_reviews()] == [CANDIDATES[5].task.task_id]
    run(parser(["review"]).parse_args(["review", "--summary", "--json"]))
    said = json.loads(capsys.readouterr().out)
    assert said == {"reviewed": 1, "agreed": 0, "gates": {"needed": {"accept": 1, "reword": 0, "reject": 0}}}


def test_a_task_that_was_not_selected_is_described_in_plain_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = CANDIDATES[0].task
    gate = Gate(GATE, False, "pass rate 0.00: others are worth more than 0.56")
    write_jsonl(Paths.verified(0) / "verdicts.jsonl", [Verdict("c0", task.task_id, False, [gate], 0.0)])
    answer(monkeypatch, "q\n", "--rejected")
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "the policy solves 0% of its episodes, passed every gate, but the selection kept more learnable tasks" in shown
    )


def test_of_several_turns_one_is_reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "w 2 lock it again\n" * 7)  # for one turn, "2 lock it again" are words
    found = {one.task_id: one.turns for one in read_reviews()}
    assert found[CANDIDATES[6].task.task_id] == ["lock 6 of 0", "lock it again"]
    assert found[CANDIDATES[0].task.task_id] == ["2 lock it again"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_decision_that_cannot_be_written_names_its_file_and_leaves_the_earlier_ones(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    answer(monkeypatch, "a\n")
    first = read_reviews()
    (project / f"reviews/.ada.jsonl.{os.getpid()}.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space") as error:
        answer(monkeypatch, "a\n")
    assert error.value.filename == "reviews/ada.jsonl"
    assert read_reviews() == first and len(first) == 1


def test_new_words_hold_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, "w lock \x1b[2J it\nw lock it\n")
    assert "control or format character U+001B" in capsys.readouterr().out
    assert [one.turns for one in read_reviews()] == [["lock it"]]


def test_mistakes_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for count in ("-5", "0"):
        with pytest.raises(SystemExit):
            answer(monkeypatch, "", "--count", count)
        assert f"--count: '{count}' is not a whole number of at least 1" in capsys.readouterr().err
    with pytest.raises(CoevolveError, match="data/3/verified: holds no verdicts"):
        answer(monkeypatch, "", "--iteration", "3")
    with pytest.raises(CoevolveError, match="--json: works only with --summary"):
        answer(monkeypatch, "", "--json")
