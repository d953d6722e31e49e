"""Every line of a candidates file gets a verdict, and any JSON reader can read the written files."""

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.io import read_jsonl, read_tasks, write_jsonl
from coevolve.core.records import Verdict
from coevolve.core.task import Task, ToolCall, task_id_of
from coevolve.environments.registry import make
from coevolve.stages.verify.judge import accepted, read_lines, verify
from coevolve.stages.verify.library import Library

PANEL = {"test": make("miniworld").tasks("test")[:5]}
CALLS = [[ToolCall("add_event", {"title": "yoga", "day": "monday"}), ToolCall("complete_task", {})]]
GOOD = asdict(Task.create("miniworld", "synthesized", ["put yoga on monday"], {"seed": 5}, CALLS))

TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(
    ["\ud800", "a\udfff", "\x00", "\u2028", "\x85", "\x1b[2J"]
)
NUMBER = st.integers() | st.floats() | st.sampled_from([10**400, -(2**63) - 1, float("nan"), float("inf"), 1e308])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def with_id(value: dict[str, Any]) -> dict[str, Any]:
    """A task whose id is the hash of its content, if it can have one."""
    try:
        calls = [[ToolCall(one["name"], one["arguments"]) for one in turn] for turn in value["reference"]]
        return {**value, "task_id": task_id_of(value["environment"], value["world"], value["turns"], calls)}
    except Exception:
        return value


def _put(key: str, value: Any) -> bytes:
    return json.dumps(with_id({**GOOD, key: value})).encode()


def _argument(value: Any) -> bytes:
    first, last = GOOD["reference"][0]
    return _put("reference", [[{**first, "arguments": {"title": value, "day": "monday"}}, last]])


LINES = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.tuples(st.sampled_from(sorted(GOOD)), JSON).map(lambda pair: _put(*pair)),
    TEXT.map(lambda text: _put("turns", [text])),
    TEXT.map(lambda text: _put("tags", [text])),
    st.dictionaries(TEXT, JSON, max_size=3).map(lambda world: _put("world", {"seed": 5, **world})),
    JSON.map(_argument),
)


def strict(path: Path) -> list[Any]:
    """The values of a file that any JSON reader accepts: UTF-8, no NaN, no lone surrogates."""

    def refused(name: str) -> None:
        raise AssertionError(f"{path} holds {name}")

    values = [json.loads(line, parse_constant=refused) for line in path.read_bytes().decode().splitlines()]
    json.dumps(values, ensure_ascii=False).encode()
    return values


def judged(lines: list[bytes], enabled: bool = True) -> list[Verdict]:
    """The verdicts on a file of ``lines``, as they are written."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "candidates.jsonl").write_bytes(b"\n".join(lines))
        found = verify("miniworld", read_lines(folder / "candidates.jsonl"), Library([], PANEL, 0.9), enabled=enabled)
        write_jsonl(folder / "verdicts.jsonl", (verdict for verdict, _ in found))
        write_jsonl(folder / "accepted.jsonl", accepted(found))
        strict(folder / "verdicts.jsonl")
        strict(folder / "accepted.jsonl")
        read_tasks(folder / "accepted.jsonl", "miniworld")
        return read_jsonl(folder / "verdicts.jsonl", Verdict)


@given(st.lists(LINES, max_size=6))
def test_every_line_has_a_verdict(lines: list[bytes]) -> None:
    found = judged([json.dumps(GOOD).encode(), *lines])
    assert len(found) == sum(bool(part.strip()) for line in lines for part in line.split(b"\n")) + 1
    assert found[0].accepted
    for one in found:
        assert one.accepted or any(gate.passed is False and gate.reason for gate in one.gates)


DEEP = "[" * 900 + "]" * 900
UNREADABLE = {
    "half of a surrogate pair": _put("turns", ["\ud800 put yoga on monday"]),
    "a NUL": _put("turns", ["put yoga\x00on monday"]),
    "NaN": _put("world", {"seed": 5, "x": float("nan")}),
    "nested": _put("world", {"seed": 5, "x": json.loads(DEEP)}),
    "twice": b'{"split": "a", ' + json.dumps(GOOD).encode()[1:],
    "not UTF-8": json.dumps(GOOD).encode().replace(b"yoga", b"\xff\xfe"),
    "not JSON": b"[" * 200_000,
    "not a JSON object": b"5",
}


@pytest.mark.parametrize("enabled", [True, False])
def test_unreadable_line_states_why(enabled: bool) -> None:
    for reason, found in zip(UNREADABLE, judged(list(UNREADABLE.values()), enabled), strict=True):
        assert not found.accepted
        assert found.gates[0].name == "readable" and reason.split()[-1] in found.gates[0].reason
