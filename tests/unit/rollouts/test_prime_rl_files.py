"""Files as prime-rl and verifiers have written them since July 2026 and before: each training rollout counts once."""

import copy
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.rollouts.test_real_files import KNOWN, played
from tests.unit.rollouts.test_rollout_formats import TRACE

LAYOUT = "monitors/file/traces"


def episode(name: str, step: int = 0, work: str = "train") -> dict[str, Any]:
    """An episode of one trace. ``name`` is the id of the trace, if there is one."""
    value = {**copy.deepcopy(TRACE), "run": {"type": "train", "id": "r", "work": {"type": work, "step": step}}}
    value["traces"][0].pop("id")
    value["traces"][0].update({"id": name} if name else {})
    return value


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def sealed(*rows: Any) -> bytes:
    """Frames of zstd and a seek table, as prime-rl seals a chunk."""
    codec = pa.Codec("zstd")
    frames = [codec.compress(lines(row), asbytes=True) for row in rows]
    return b"".join(frames) + struct.pack("<II", 0x184D2A5E, 9) + bytes(9)


def write(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("named", [True, False])
def test_rollout_in_all_and_effective_counts_once(tmp_path: Path, named: bool) -> None:
    for step in (0, 1):
        names = [f"{step}-{row}" if named else "" for row in range(4)]
        for subset, some in (("all", names), ("effective", names[1:])):
            rows = lines(*(episode(name, step) for name in some))
            write(tmp_path / f"rollouts/step_{step}/train/{subset}/traces.jsonl", rows)
    name, found, account, options = played(tmp_path)
    assert name == "verifiers" and [one.step for one in found] == [0] * 4 + [1] * 4 and not account.skipped
    assert list(options.remarks.values()) == [2]
    only = tmp_path / "rollouts/step_0/train/effective"
    assert len(played(only)[1]) == 3, "without `all` it counts"


def test_copied_rollouts_count_once_by_their_ids(tmp_path: Path) -> None:
    write(tmp_path / "a/traces.jsonl", lines(episode("1"), episode("2")))
    write(tmp_path / "b/traces.jsonl", lines(episode("2"), episode("3")))
    _, found, _, options = played(tmp_path)
    assert [one.trajectory_id for one in found] == ["a/traces.jsonl:1", "a/traces.jsonl:2", "b/traces.jsonl:2"]
    assert options.remarks == {"rollouts that the files hold twice, left out": 1}


def test_evaluation_within_a_training_run_is_left_out(tmp_path: Path) -> None:
    stamped = episode("3")
    stamped["traces"][0]["info"] = {"kind": "eval"}
    bare = {**episode("4")["traces"][0], "kind": "eval"}
    write(tmp_path / "traces.jsonl", lines(episode("1"), episode("2", work="eval"), stamped, bare))
    _, found, _, options = played(tmp_path)
    assert len(found) == 1 and list(options.remarks.values()) == [3]


@pytest.mark.parametrize("compressed", [True, False])
def test_stream_and_its_chunks_are_read_in_order(tmp_path: Path, compressed: bool) -> None:
    """The live chunk is text, and the others are sealed. Annotations and indexes are no rollouts."""
    folder = tmp_path / LAYOUT
    if compressed:
        write(folder / "stream/00000.jsonl.zst", sealed(episode("1", 1), episode("2", 1)))
        write(folder / "stream/00000.jsonl.zst.tmp", b"torn")
        write(folder / "stream/00001.jsonl", lines(episode("3", 2)))
    else:
        write(folder / "stream.jsonl", lines(episode("1", 1), episode("2", 1), episode("3", 2)))
    write(folder / "stream.index.jsonl", lines({"chunk": 0, "offset": 0}))
    write(folder / "annotations/trainer.jsonl", lines({"trace_id": "1", "info": {"ship": {"step": 2}}, "branches": []}))
    name, found, account, _ = played(tmp_path)
    assert name == "verifiers" and [one.step for one in found] == [1, 1, 2] and not account.skipped
    assert {one.task_id for one in found} == {KNOWN[0].task_id}


def test_damaged_chunk_is_reported_by_its_line(tmp_path: Path) -> None:
    write(tmp_path / "stream/00000.jsonl", lines(episode("1")))
    whole = sealed(*(episode(str(row)) for row in range(2, 6)))
    write(tmp_path / "stream/00001.jsonl.zst", whole[:200] + b"x" * 99)
    _, found, account, _ = played(tmp_path)
    assert found and account.skipped[-1]["where"].startswith("00001.jsonl.zst:")
    assert "cannot be read from here on" in account.skipped[-1]["reason"]


def test_results_of_older_verifiers_are_read(tmp_path: Path) -> None:
    """A row has the number of its example, messages whose calls are JSON texts, and the flat names of its metrics."""
    call = json.dumps({"id": "c", "type": "function", "function": {"name": "find_mail", "arguments": "{}"}})
    row = {
        "example_id": 3,
        "prompt": [{"role": "system", "content": "act"}, {"role": "user", "content": KNOWN[1].turns[0]}],
        "completion": [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "m3"},
        ],
        "reward": 1.0,
        "error": None,
    }
    failed = {**row, "reward": 0.0, "error": {"error": "SandboxError", "error_chain_repr": "x", "error_chain_str": "x"}}
    text = {**row, "prompt": f"user\n{KNOWN[1].turns[0]}\nassistant\n", "completion": "done", "reward": [0.5]}
    write(tmp_path / "outputs/evals/env--model/run/results.jsonl", lines(row, failed, text))
    name, found, account, _ = played(tmp_path)
    assert name == "coevolve" and not account.skipped and {one.task_id for one in found} == {KNOWN[1].task_id}
    assert [(one.score, one.counts) for one in found] == [(1.0, True), (0.0, False), (0.5, True)]
    assert [(call.name, call.ok, call.observation) for call in found[0].calls] == [("find_mail", True, "m3")]


def test_training_files_of_prime_rl_before_july_are_read(tmp_path: Path) -> None:
    row = {"example_id": 0, "prompt": [{"role": "user", "content": KNOWN[0].turns[0]}], "completion": "no", "reward": 0}
    for kind in ("train", "eval"):
        write(tmp_path / f"rollouts/step_3/{kind}_rollouts.jsonl", lines(row))
    _, [found], _, _ = played(tmp_path)
    assert found.task_id == KNOWN[0].task_id and found.trajectory_id == "train_rollouts.jsonl:1"
