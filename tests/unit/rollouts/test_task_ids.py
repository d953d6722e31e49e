"""The id in the trainer's file decides the task of a rollout. Only a rollout without an id is matched by its text."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve.rollouts.match_tasks import UNLISTED
from tests.unit.rollouts.test_chats import CHAT
from tests.unit.rollouts.test_real_files import KNOWN, played
from tests.unit.rollouts.test_rollout_formats import DUMP, TRACE, read, trl

REQUEST = KNOWN[0].turns[0]
MESSAGES = [{"role": "user", "content": REQUEST}, {"role": "assistant", "content": "done"}]
Write = Callable[[Path, list[Any]], Path]


def write_trl(folder: Path, names: list[Any]) -> Path:
    return trl(folder, prompt=[MESSAGES[:1]] * 2, reward=[0.0, 1.0], task_id=names)


def write_lines(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "1.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "1.jsonl"


def write_verl(folder: Path, names: list[Any]) -> Path:
    return write_lines(folder, [{**DUMP, "input": f"user\n{REQUEST}\nassistant\n", "task_id": name} for name in names])


def write_chats(folder: Path, names: list[Any]) -> Path:
    return write_lines(folder, [{**CHAT, "messages": MESSAGES, "step": 1, "task_id": name} for name in names])


FORMATS = pytest.mark.parametrize(
    ("name", "write"), [("trl", write_trl), ("verl", write_verl), ("coevolve", write_chats)]
)


@FORMATS
def test_integer_is_a_task_id(tmp_path: Path, name: str, write: Write) -> None:
    found, account = read(write(tmp_path, [17, 18]), name)
    assert [trajectory.task_id for trajectory in found] == ["17", "18"] and not account.skipped


@pytest.mark.parametrize("value", [True, None, ""])
@FORMATS
def test_invalid_task_id_is_ignored(tmp_path: Path, name: str, write: Write, value: Any) -> None:
    write(tmp_path, [value, value])
    _, found, _, _ = played(next(tmp_path.iterdir()), name)
    assert [trajectory.task_id for trajectory in found] == [KNOWN[0].task_id] * 2


@FORMATS
def test_rollout_with_an_unknown_id_is_skipped_even_if_its_text_is_known(
    tmp_path: Path, name: str, write: Write
) -> None:
    write(tmp_path, [KNOWN[0].task_id, "of another split"])
    _, found, account, _ = played(next(tmp_path.iterdir()), name)
    assert [trajectory.task_id for trajectory in found] == [KNOWN[0].task_id]
    [reason] = [skipped["reason"] for skipped in account.skipped]
    assert reason == f"{UNLISTED} ('of another split'; a known id is '{KNOWN[0].task_id}', a task's task_id)"


@FORMATS
def test_row_number_is_no_id_and_the_request_decides(tmp_path: Path, name: str, write: Write) -> None:
    write(tmp_path, [17, 18.0] if name != "trl" else [17.0, 18.0])
    _, found, account, _ = played(next(tmp_path.iterdir()), name)
    assert [trajectory.task_id for trajectory in found] == [KNOWN[0].task_id] * 2 and not account.skipped


def test_verifiers_row_names_are_not_ids(tmp_path: Path) -> None:
    row = json.loads(json.dumps(TRACE))
    task = row["traces"][0]["task"]
    task["data"]["id"] = task["key"] = task["hash"] = "row-1"
    (tmp_path / "traces.jsonl").write_text(json.dumps(row))
    _, [found], account, _ = played(tmp_path)
    assert found.task_id in {known.task_id for known in KNOWN} and not account.skipped
