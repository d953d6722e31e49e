"""Numbers, columns and ids that nothing can compute with: one row is left out, or one line says why."""

import copy
import json
import os
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.trajectories import read_trajectories, stream_trajectories, write_trajectories
from tests.unit.commands.test_import import VALUES, places
from tests.unit.rollouts.test_real_files import MADE, played
from tests.unit.rollouts.test_rollout_formats import LINES, TRACE, read, trl

SCORES = [10**401, 1e308, float("nan"), True, None, "1", [1, 2], {}]


@pytest.mark.parametrize("score", SCORES, ids=lambda score: str(score)[:9])
@pytest.mark.parametrize(("name", "key"), [("verl", "score"), ("coevolve", "reward")])
def test_score_that_is_no_number_leaves_its_row_out(tmp_path: Path, name: str, key: str, score: Any) -> None:
    rows = [{**LINES[name], key: value} for value in (0.5, score, [0.25])]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found, account = read(tmp_path / "rows.jsonl", name)
    assert [one.score for one in found] == [0.5, 0.25]
    assert [row["where"] for row in account.skipped] == ["rows.jsonl:2"]


@pytest.mark.parametrize(
    "rewards", [{"a": {"score": 1e308, "weight": 10}}, {"a": {"score": 1, "weight": 1e300}}, {"a": {"score": 10**400}}]
)
def test_trace_whose_weighted_reward_overflows_is_left_out(tmp_path: Path, rewards: dict[str, Any]) -> None:
    row = copy.deepcopy(TRACE)
    row["traces"][0].update(rewards=rewards, id="another")
    (tmp_path / "traces.jsonl").write_text(f"{json.dumps(TRACE)}\n{json.dumps(row)}")
    _, found, account, _ = played(tmp_path)
    assert len(found) == 1 and [row["where"] for row in account.skipped] == ["traces.jsonl:2"]


def stored(folder: Path, **columns: Any) -> Path:
    """Twelve trajectories in a file, with other ``columns``."""
    _, found, _, _ = played(MADE / "verl")
    write_trajectories(folder / "trajectories.parquet", found)
    table = pq.read_table(folder / "trajectories.parquet")
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    pq.write_table(table, folder / "trajectories.parquet")
    return folder


CALL = {"name": "a", "arguments": "{}", "ok": True, "observation": "", "turn": 0}


@pytest.mark.parametrize(
    "column",
    [
        {"trajectory_id": pa.array(range(12))},
        {"messages": pa.array(["{}"] * 12)},
        *(
            {"calls": pa.array([[{**CALL, **wrong}]] * 12)}
            for wrong in ({"name": 5}, {"arguments": "[]"}, {"turn": 2**40})
        ),
        {"calls": pa.array([[{"name": "a"}]] * 12)},
        {"score": pa.array([1e308] * 12)},
    ],
)
def test_trajectories_with_odd_columns_are_left_out(tmp_path: Path, column: dict[str, Any]) -> None:
    _, found, account, _ = played(stored(tmp_path, **column))
    assert not found and len(account.skipped) == 12


@pytest.mark.parametrize("ids", [["same"] * 12, [None] * 12])
def test_trajectories_without_ids_of_their_own_are_known_by_their_address(
    tmp_path: Path, ids: list[str | None]
) -> None:
    _, found, _, options = played(stored(tmp_path, trajectory_id=pa.array(ids, pa.string())))
    assert len({one.trajectory_id for one in found}) == 12
    assert list(options.remarks.values()) == [12 - (ids[0] == "same")]


@given(data=st.data())
def test_any_value_in_a_table_gives_a_rollout_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Also what a file of mixed types becomes, if Arrow can write it at all."""
    folder = tmp_path_factory.mktemp("table")
    call = {"function": {"name": "a", "arguments": {"x": 1}}}
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    row: dict[str, Any] = {"step": 1, "prompt": chat[:1], "completion": chat[1:], "reward": 0.5, "advantage": 0.0}
    container, key = data.draw(st.sampled_from(places(row)))
    container[key] = data.draw(VALUES | st.binary(max_size=3) | st.dates() | st.timedeltas())
    try:
        pq.write_table(pa.Table.from_pylist([row] * 2), folder / "completions_1.parquet")
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return
    try:
        found, account = read(folder / "completions_1.parquet", "trl")
    except CoevolveError as error:
        assert "\n" not in str(error)
        return
    assert len(found) + len(account.skipped) == 2
    stream_trajectories(folder / "stored.parquet", found)
    assert len(read_trajectories(folder / "stored.parquet")) == len(found)


@pytest.mark.parametrize("value", [b"\xff", date(2020, 1, 1), timedelta(1)], ids=str)
def test_table_whose_messages_are_no_json_leaves_rows_out(tmp_path: Path, value: Any) -> None:
    call = {"function": {"name": "a", "arguments": {"x": value}}}
    reply = {"role": "assistant", "content": "", "tool_calls": [call]}
    _, account = read(trl(tmp_path, reward=[0.0, 1.0], completion=[[reply]] * 2), "trl")
    assert [row["reason"] for row in account.skipped] == [
        f"a message holds a {type(value).__name__}, which is no JSON"
    ] * 2


def test_name_of_a_file_that_is_no_text_is_escaped(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.jsonl")).write_text(json.dumps(LINES["verl"]))
    found, _ = read(tmp_path / "*.jsonl", "verl")
    assert [one.trajectory_id for one in found] == ["\\udcff.jsonl:1"]
