"""`coevolve signals`: what the rollouts of any trainer say, in at most fifteen lines."""

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coevolve.cli import main
from coevolve.core.io import read_jsonl
from coevolve.core.records import Signal
from tests.unit.commands.test_import import CHAT
from tests.unit.rollouts.test_real_files import MADE

SAMPLES = ("atif", "harbor-job", "rllm", "skyrl", "nemo-gym", "trl_same_prompts", "trl_partial", "trl", "verl")


def signals(*words: Any) -> list[str]:
    """The lines that the command prints, or its error."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors, pytest.raises(SystemExit):
        main(["signals", *map(str, words)])
    return (out.getvalue() or errors.getvalue()).splitlines()


def told(*words: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads("".join(signals(*words, "--json")))
    return value


def rows(file: Path, *values: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps({"task_id": "a", "step": 0, "score": 1.0, **value}) + "\n" for value in values))
    return file


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("kinds", [[], ["--kinds", "forgetting", "boundary", "rare", "unsolved"]])
def test_report_has_at_most_fifteen_lines_and_ends_with_the_next_command(name: str, kinds: list[str]) -> None:
    lines = signals(MADE / name, *kinds)
    assert 5 <= len(lines) <= 15 and lines[-1].startswith("next: ") and max(map(len, lines)) <= 300
    assert " rollouts of " in lines[0] and lines[1].startswith("rewards: ")


def test_report_of_rllm() -> None:
    *lines, last = signals(MADE / "rllm/episodes")
    assert last.startswith("next: coevolve grow /") and last.endswith("   # new tasks there")
    assert lines == [
        "6 rollouts of 3 tasks (rllm)",
        "rewards: 0 x 2, 1 x 3; 3 of 5 solved: at least 0.5 (--threshold)",
        "forgotten: 0 tasks",
        "solved now and then: 1 task",
        '  6a851524 "Please cancel my open order. I am Ada.": 1 of 2 solved',
        "rare tools: 0",
        "refused calls: 2 of 11",
        '  cancel: 2 of 5, such as "Error: no order 999"',
        "2 agents or models are mixed; name the files of one: clerk (5), solver (1)",
        "rollouts that an error ended, which say nothing about the agent: 1 (first: train_step_2_epoch_0/"
        "episode_hash1aa90421_id1badb4f5-13b4-5a39-01da-01354f468977_0.json)",
        "trajectories of later agents in an episode (such as a judge), left out: 1; 1 more note with --json",
    ]


def test_files_of_several_formats_are_one_table(tmp_path: Path) -> None:
    for name in ("rllm", "nemo-gym", "verl", "harbor-job"):
        shutil.copytree(MADE / name, tmp_path / name)
    rows(tmp_path / "own.jsonl", {"calls": [{"name": "pay", "ok": False}]})
    pq.write_table(pa.table({"task_id": ["b"], "step": [0], "score": [0.0]}), tmp_path / "more.parquet")
    (tmp_path / "notes.jsonl").write_text('{"note": 1}\n')
    (tmp_path / "torn.json").write_text('{\n"steps": [')
    together = told(tmp_path)
    apart = [told(tmp_path / name) for name in ("rllm", "nemo-gym", "verl", "harbor-job", "own.jsonl", "more.parquet")]
    assert together["rollouts"] == sum(one["rollouts"] for one in apart)
    assert sorted(together["formats"]) == ["episodes", "harbor", "nemo-gym", "rllm", "verl"]
    assert sum(one["count"] for one in together["left_out"]) == 3, "notes, a torn file, and a trial of two rewards"
    assert next(tool for tool in together["tools"] if tool["name"] == "pay") == {
        "name": "pay", "calls": 1, "refused": 1, "example": "(the row holds no answer)"
    }  # fmt: skip
    mixed = signals(tmp_path / "rllm", f"{tmp_path}/ver*", tmp_path / "own.jsonl")
    assert mixed[0].endswith("(rllm, verl, episodes)")


def test_tasks_that_cannot_be_told_apart_are_hedged() -> None:
    """16 rows of the data set have 10 prompts: a "forgotten" prompt may be another row."""
    lines = signals(MADE / "trl_same_prompts")
    assert lines[0] == "64 rollouts of 10 prompts (trl)"
    assert "forgotten: 1 prompt, or several tasks that share a prompt" in lines
    assert [
        line for line in lines if "tasks that begin alike cannot be told apart (docs/concepts/signals.md): 64" in line
    ]


def test_out_holds_every_signal(tmp_path: Path) -> None:
    counts = told(MADE / "trl_same_prompts", "--out", tmp_path / "s.jsonl")["signals"]
    kinds = [signal.kind for signal in read_jsonl(tmp_path / "s.jsonl", Signal)]
    assert {kind: kinds.count(kind) for kind in counts} == counts and counts["boundary"] > 3


def test_threshold_decides_what_is_solved() -> None:
    lines = signals(MADE / "trl_partial")
    assert "16 of 16 solved: at least 0.5 (--threshold), 5 of them with less than 1" in lines[1]
    assert lines[-1] == "next: --threshold 1, if only the full reward is a success"
    strict = told(MADE / "trl_partial", "--threshold", "1")
    assert strict["rewards"]["solved"] == 11 and strict["signals"]["boundary"] == 4
    assert strict["rewards"]["common"] == told(MADE / "trl_partial")["rewards"]["common"], "the rewards stay"


def test_several_rewards_need_a_name() -> None:
    [line] = signals(MADE / "trl_async")
    assert "2 columns may be the score: short, solved; name one with --reward" in line
    assert told(MADE / "trl_async", "--reward", "short")["rewards"]["solved"] > 0


def test_traces_without_rewards_tell_their_calls(tmp_path: Path) -> None:
    (tmp_path / "traces.jsonl").write_text(json.dumps({"messages": CHAT["messages"]}) + "\n")
    lines = signals(tmp_path / "traces.jsonl", "--rare-threshold", "60")
    assert lines[1] == "rewards: none, so no task is solved or failed; only calls tell something"
    assert "refused calls: 1 of 2" in lines and '  pay: 1 of 1, such as "Error: too poor"' in lines
    assert lines[-1].startswith("next: name files with rewards")
    assert told(tmp_path / "traces.jsonl", "--score", "1")["rewards"]["solved"] == 1


def test_reason_why_no_signal_can_fire_is_said(tmp_path: Path) -> None:
    equal = signals(rows(tmp_path / "equal.jsonl", {"step": 0}, {"step": 0}, {"step": 1}))
    assert [line for line in equal if "every reward is 1" in line] == [
        "forgotten: 0 tasks (every reward is 1)", "solved now and then: 0 tasks (every reward is 1)"
    ]  # fmt: skip
    once = signals(rows(tmp_path / "once.jsonl", {}, {"task_id": "b", "score": 0.0}))
    assert "forgotten: 0 tasks (unknown: no task has rollouts of two training steps)" in once
    assert "solved now and then: 0 tasks (unknown: no task has two rollouts in a step)" in once


def test_forgotten_task_has_its_own_id(tmp_path: Path) -> None:
    values = [
        {"task_id": "refund an order", "step": step, "score": score}
        for step, score in ((0, 1), (1, 0.5), (2, 0), (3, 0))
    ]
    lines = signals(rows(tmp_path / "rows.jsonl", *values))
    assert "forgotten: 1 task" in lines and "  refund an order: score 0.5 at step 1, 0 at step 3" in lines


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: None, "1 left out: a folder without rollouts"),
        (lambda folder: (folder / "notes.txt").write_text("x"), "1 left out: a folder without rollouts"),
        (lambda folder: (folder / "a.jsonl").write_text(""), "no rollout to read: it is empty"),
        (lambda folder: (folder / "a.jsonl").write_text('{"a": 1}'), "1 left out: a file of no known format"),
        (lambda folder: (folder / "a.json").write_text('{\n"steps": ['), "1 left out: not JSON (first: a.json: "),
        (lambda folder: (folder / "a.parquet").write_bytes(b"PAR1"), "1 left out: not a Parquet file"),
    ],
)
def test_source_without_a_rollout_is_a_one_line_error(tmp_path: Path, make: Any, said: str) -> None:
    make(tmp_path)
    [line] = signals(tmp_path)
    assert line.startswith(f"error: {tmp_path}") and said in line


def test_empty_folder_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    lines = signals(tmp_path / "empty", rows(tmp_path / "rows.jsonl", {}))
    assert f"not understood: 1 row; 1 x a folder without rollouts (first: {tmp_path}/empty)" in lines


def test_texts_of_files_cannot_control_the_terminal(tmp_path: Path) -> None:
    bad = "\x1b[2J\nrm"
    values = [{"task_id": bad, "score": score, "calls": [{"name": bad, "ok": False}]} for score in (0, 1)]
    lines = signals(rows(tmp_path / "rows.jsonl", *values))
    assert (
        len(lines) <= 15 and not any("\x1b" in line for line in lines) and any("rm: 2 of 2" in line for line in lines)
    )
