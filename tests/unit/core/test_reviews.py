"""People's decisions: which one holds, what they change, and how often the gates agree."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.records import Gate, Verdict
from coevolve.core.reviews import SOUND, Review, agreed, by_gate, decided, file_of, in_their_words, read_reviews
from coevolve.core.task import Task, ToolCall
from coevolve.stages.generate import spec_outcomes
from coevolve.stages.verify import select

TASK = Task.create(
    "miniworld", "x", ["lock the wallet"], {"seed": 1}, [[ToolCall("lock", {"app": "wallet"})]], ["lock"]
)
ROW = json.loads(json.dumps(asdict(TASK)))


def write(folder: Path, name: str, *reviews: Review) -> None:
    (folder / "reviews").mkdir(exist_ok=True)
    with (folder / "reviews" / f"{name}.jsonl").open("a") as file:
        file.writelines(json.dumps(asdict(one)) + "\n" for one in reviews)


def test_a_reviewers_last_word_counts_and_of_several_the_most_severe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_reviews() == []
    write(
        tmp_path, "ada", Review("a", "reject", "ada", "odd"), Review("a", "accept", "ada"), Review("b", "accept", "ada")
    )
    write(tmp_path, "ben", Review("b", "reject", "ben", "rude"), Review("c", "reword", "ben", turns=["new"]))
    write(tmp_path, "cleo", Review("c", "accept", "cleo"))
    found = decided(read_reviews())
    assert {name: one.decision for name, one in found.items()} == {"a": "accept", "b": "reject", "c": "reword"}


def test_nobody_decides_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line in another's name could lift a rejection, because a reviewer's latest decision wins."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "alice", Review("a", "reject", "alice", "odd"))
    write(tmp_path, "mallory", Review("b", "accept", "mallory"), Review("a", "accept", "alice"))
    with pytest.raises(CoevolveError, match=r"reviews/mallory.jsonl:2: reviewer 'alice': expected 'mallory'"):
        read_reviews()


def test_new_words_make_another_task_of_the_same_reference() -> None:
    said = {TASK.task_id: Review(TASK.task_id, "reword", "ada", turns=["please lock my wallet"])}
    [row, other, strange] = in_their_words([ROW, {**ROW, "task_id": "else"}, 7], said)
    assert row["turns"] == ["please lock my wallet"]
    assert row["task_id"] != TASK.task_id
    assert {key: row[key] for key in ("reference", "world", "tags")} == {
        key: ROW[key] for key in ("reference", "world", "tags")
    }
    assert other == {**ROW, "task_id": "else"} and strange == 7


@pytest.mark.parametrize("turns", [[], ["one", "two"]])
def test_words_that_do_not_fit_the_turns_are_an_error(
    turns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "ada", Review(TASK.task_id, "reword", "ada", turns=turns))
    with pytest.raises(CoevolveError, match="turns"):
        in_their_words([ROW], decided(read_reviews()))


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 65])
def test_a_reviewers_name_is_a_files_name(name: str) -> None:
    with pytest.raises(CoevolveError, match="reviewer"):
        file_of(name)


def test_gates_and_people_agree_where_both_took_it_as_it_was_or_both_did_not() -> None:
    refused = [Gate("executable", True), Gate("needed", False, "x")]
    verdicts = [
        Verdict("1", "a", True, []),
        Verdict("2", "b", True, []),
        Verdict("3", "c", False, refused),
        Verdict("4", "d", False, refused),
        Verdict("5", None, False, []),
        Verdict("6", "unseen", True, []),
    ]
    said = decided(
        [Review("a", "accept", "x"), Review("b", "reword", "x"), Review("c", "reject", "x"), Review("d", "accept", "x")]
    )
    counts = by_gate(verdicts, said)
    assert counts == {"accepted": {"accept": 1, "reword": 1}, "needed": {"reject": 1, "accept": 1}}
    assert agreed(counts) == (2, 4)


@pytest.mark.parametrize("gate", SOUND)
def test_a_gate_that_sets_a_sound_task_apart_refuses_nothing(gate: str) -> None:
    assert SOUND == (select.GATE, spec_outcomes.GATE)
    verdicts = [Verdict(name, name, False, [Gate(gate, False, "x")]) for name in "ab"]
    counts = by_gate(verdicts, decided([Review("a", "accept", "x"), Review("b", "reject", "x")]))
    assert counts == {gate: {"accept": 1, "reject": 1}} and agreed(counts) == (1, 2)
