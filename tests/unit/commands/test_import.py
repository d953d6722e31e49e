"""`coevolve import`: each line is an episode or a one-line error."""

import io
import json
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from coevolve.cli import main
from coevolve.core.trajectories import read_trajectories
from tests.unit.rollouts.test_chats import CHAT

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(["\ud800", "\0", 10**400, 2**63, "[" * 10**5, '{"a":' * 500, '{"a": NaN}', "x" * 10**6])
)
KEYS = st.sampled_from(["role", "content", "tool_calls", "function", "name", "arguments", "id", "tool_call_id", "x"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=6
)


def imported(folder: Path, line: str, kind: str = "messages") -> tuple[int, str]:
    """Import a file that holds ``line``. Returns the exit code and the printed errors."""
    (folder / "chats.jsonl").write_text(line + "\n", encoding="utf-8")
    with pytest.raises(SystemExit) as left, redirect_stderr(io.StringIO()) as errors:
        main(["import", kind, str(folder / "chats.jsonl"), "--out", str(folder / "out.parquet")])
    return int(left.value.code or 0), errors.getvalue()


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in ``value`` with each of its keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [pair for key, item in inner for pair in [(value, key), *places(item)]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("import")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[" * 10**5, "not JSON (first: chats.jsonl:1: nested too deeply"),
        ('{"messages": [{"role": "user", "content": "x"}], "score": 1, "score": 0}', "a key stands twice in an object"),
        ('{"messages": [{"role": "user", "content": "x"}], "score": NaN}', "NaN is no number of JSON"),
        (
            '{"messages": [{"role": "user", "content": "x"}]}',
            "no score or reward (first: chats.jsonl:1: --score of",
        ),
    ],
)
def test_file_without_an_episode_is_a_one_line_error(folder: Path, line: str, reason: str) -> None:
    (folder / "out.parquet").unlink(missing_ok=True)
    code, errors = imported(folder, line)
    assert code == 1 and errors.count("\n") == 1 and not (folder / "out.parquet").exists()
    assert errors.startswith(f"error: {folder}/chats.jsonl: no rollout to read: 1 left out: ") and reason in errors


def test_line_with_a_mistake_is_left_out_with_its_address(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = json.dumps(CHAT)
    code, _ = imported(folder, f"{good}\n\n{good}\n{json.dumps({**CHAT, 'reward': '5'})}")
    lines = capsys.readouterr().out.splitlines()
    assert code == 0 and lines[0] == f"{folder}/out.parquet: 2 rollouts of 1 tasks"
    assert "  1 left out: reward: expected a number of at most 1e+12 (first: chats.jsonl:4: found 5)" in lines
    assert [line for line in lines if "refused (" in line] == [
        "  4 calls, 2 of them refused (first: chats.jsonl:1: pay Error: too poor)"
    ]


def test_score_option_is_for_episodes_without_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = {"messages": CHAT["messages"]}
    (folder / "bare.jsonl").write_text("\n".join(map(json.dumps, [bare, CHAT, {**CHAT, "reward": 7}])))
    with pytest.raises(SystemExit):
        main(["import", "messages", str(folder / "bare.jsonl"), "--score", "1", "--out", str(folder / "bare.parquet")])
    assert [found.score for found in read_trajectories(folder / "bare.parquet")] == [1.0, 0.25, 7.0]
    assert "scores outside of 0 to 1, of which those of at least 0.5 count as success: 1 (first: bare.jsonl:3)" in (
        capsys.readouterr().out
    )
