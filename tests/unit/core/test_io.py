import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core import io, trajectories
from coevolve.core.errors import CoevolveError
from coevolve.core.scratch import claim
from coevolve.core.task import CallOutcome, Task, ToolCall
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.stages.verify.judge import read_lines


def task(text: str = "pay Ana", **world: int) -> Task:
    calls = [[ToolCall("find", {"name": "Ana"}), ToolCall("pay", {"id": "c1", "amount": 3})]]
    return Task.create("miniworld", "seed", [text], world or {"seed": 1}, calls, ["pay"])


def trajectory(index: int = 0) -> Trajectory:
    return Trajectory(
        trajectory_id=f"t{index}",
        task_id="abc",
        iteration=0,
        step=index,
        group=0,
        sample=index,
        messages=[{"role": "user", "content": "pay Ana \u2713"}],
        calls=[CallOutcome("find", {"name": "Ana"}, True, "c1"), CallOutcome("fly", {}, False, "unknown tool", 1)],
        score=0.25,
        stop_reason=StopReason.DONE,
        tokens=[5, 3],
        checks={"goal": False},
    )


def test_task_id_depends_on_content_only() -> None:
    assert task().task_id == task().task_id
    assert task().task_id != task("pay Bob").task_id
    assert task(seed=1).task_id != task(seed=2).task_id
    other_split = Task.create("miniworld", "test", ["pay Ana"], {"seed": 1}, task().reference)
    assert other_split.task_id == task().task_id


def test_trajectories_are_read_back_and_give_the_same_bytes(tmp_path: Path) -> None:
    wrote = [trajectory(0), trajectory(1)]
    trajectories.write_trajectories(tmp_path / "a.parquet", wrote)
    trajectories.write_trajectories(tmp_path / "b.parquet", wrote)
    assert trajectories.read_trajectories(tmp_path / "a.parquet") == wrote
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.mark.parametrize("path", ["data/0/attempts.jsonl", "evaluations/1/a.jsonl"])
def test_a_runs_file_without_records_is_not_empty(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DVC warns about an output of 0 bytes, once for each stage that writes or reads it."""
    monkeypatch.chdir(tmp_path)
    io.write_jsonl(Path(path), [])
    assert Path(path).read_bytes() == b"\n"
    assert io.read_jsonl(Path(path), Task) == [] and read_lines(Path(path)) == []


def test_other_files_hold_nothing_but_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path("signals.jsonl"), tmp_path / "data/0/tasks.jsonl"):
        io.write_jsonl(path, [])
        assert path.read_bytes() == b""
    io.write_jsonl(Path("data/0/tasks.jsonl"), [task()])
    assert Path("data/0/tasks.jsonl").read_bytes().count(b"\n") == 1


STRANGE = "a\ud800b\x00\u2028\x85\x1b[2J\udfff"


def test_any_model_text_can_be_written_and_read(tmp_path: Path) -> None:
    """Half of a surrogate pair is no text. Every kind of file keeps it as its escape."""
    call = CallOutcome(STRANGE, {STRANGE: [STRANGE]}, False, STRANGE)
    one = replace(trajectory(), calls=[call], messages=[{"role": "assistant", "content": STRANGE}])
    trajectories.write_trajectories(tmp_path / "a.parquet", [one])
    (found,) = trajectories.read_trajectories(tmp_path / "a.parquet")
    assert found.messages == one.messages and found.calls[0].arguments == call.arguments
    assert (
        found.calls[0].name
        == found.calls[0].observation
        == STRANGE.replace("\ud800", "\\ud800").replace("\udfff", "\\udfff")
    )
    io.write_jsonl(tmp_path / "a.jsonl", [call])
    assert io.read_jsonl(tmp_path / "a.jsonl", CallOutcome) == [call]
    io.write_json(tmp_path / "a.json", {STRANGE: STRANGE})
    assert io.read_json(tmp_path / "a.json") == {STRANGE: STRANGE}
    io.write_text(tmp_path / "a.txt", STRANGE)
    assert (tmp_path / "a.txt").read_bytes().decode()


@given(st.data())
def test_damaged_parquet_file_is_read_or_a_one_line_error(data: st.DataObject) -> None:
    """A flipped bit or a cut anywhere never ends in a traceback."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        trajectories.write_trajectories(path, [trajectory(0), trajectory(1)])
        content = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content[:place] if data.draw(st.booleans()) else content)
        try:
            trajectories.read_trajectories(path)
        except CoevolveError as error:
            assert "a.parquet: " in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema_version": 99}, "schema_version 99 is unknown, expected 1"),
        ({"turns": "no list"}, "turns"),
        ({"environment": "bfcl"}, "belongs to environment 'bfcl', expected 'miniworld'"),
    ],
)
def test_wrong_record_error_names_file_and_line(tmp_path: Path, change: dict[str, object], expected: str) -> None:
    path = tmp_path / "tasks.jsonl"
    io.write_jsonl(path, [task("a"), task("b")])
    lines = path.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    path.write_text("\n".join(lines))
    with pytest.raises(CoevolveError) as caught:
        io.read_tasks(path, "miniworld")
    assert f"{path}:2: " in str(caught.value)
    assert expected in str(caught.value)


def test_duplicate_task_error_names_both_lines(tmp_path: Path) -> None:
    io.write_jsonl(tmp_path / "t.jsonl", [task("a"), task("b"), task("a")])
    with pytest.raises(CoevolveError, match=r"t\.jsonl:3: duplicate task_id \w+, first on line 1"):
        io.read_tasks(tmp_path / "t.jsonl")


def test_interrupted_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    io.write_jsonl(path, [task()])
    before = path.read_bytes()

    def failing() -> object:
        yield task("a")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        io.write_jsonl(path, failing())  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_in_use_is_nobody_elses(tmp_path: Path) -> None:
    with claim(tmp_path / "job") as first, claim(tmp_path / "job") as second:
        assert (first.name, second.name) == ("job", "job-1")
    with claim(tmp_path / "job") as again:
        assert again.name == "job"
