"""`coevolve grow` on a class that TRL plays: references come from rewarded rollouts, and nobody writes a line of code."""

import asyncio
import inspect
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks
from coevolve.core.task import ToolCall
from coevolve.environments.registry import make
from coevolve.rollouts.grow_loop import Grown, grow
from tests.cli import coevolve
from tests.unit.rollouts.garage import ROWS, Garage

CLASS = f"{Path(__file__).with_name('garage.py')}:Garage"
Call = tuple[str, dict[str, Any]]


def played(row: Mapping[str, Any], calls: Sequence[Call], step: int, **columns: Any) -> dict[str, Any]:
    """A row of TRL's completions. As in TRL, answers of async tools come after the others."""
    world = Garage()
    prompt = [*row["prompt"][:-1], {"role": "user", "content": row["prompt"][-1]["content"] + world.reset(**row)}]
    asked, late, answers = list[Any](), list[Any](), list[Any]()
    for name, arguments in calls:
        asked.append({"type": "function", "function": {"name": name, "arguments": arguments}})
        result: Any = None
        try:
            result = getattr(world, name)(**arguments)
            (late if inspect.isawaitable(result) else answers).append((name, result))
        except Exception as error:
            answers.append((name, {"error": str(error)}))
    for name, coroutine in late:
        try:
            answers.append((name, asyncio.run(coroutine)))
        except Exception as error:
            answers.append((name, {"error": str(error)}))
    told = [{"role": "tool", "name": name, "content": str(answer)} for name, answer in answers]
    completion = [
        {"role": "assistant", "content": "", "tool_calls": asked},
        *told,
        {"role": "assistant", "content": "ok"},
    ]
    return {
        "step": step,
        "prompt": prompt,
        "completion": completion,
        "Garage": world.get_reward(),
        "advantage": 0.0,
    } | columns


def solution(row: Mapping[str, Any]) -> list[Call]:
    cars, goal = json.loads(row["cars"]), json.loads(row["goal"])
    plate = next(plate for plate in cars if cars[plate]["level"] != goal[plate])
    return [("find", {"owner": cars[plate]["owner"]}), ("park", {"plate": plate, "level": goal[plate]})]


def failing(row: Mapping[str, Any]) -> list[Call]:
    return solution(row)[:1]


def write(folder: Path, rows: Sequence[Mapping[str, Any]], attempts: Callable[[int], Sequence[Any]]) -> Path:
    """The data set, and the completions of ``attempts`` at each row."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for step in (1, 2):
        batch = [played(row, act(row), step) for number, row in enumerate(rows) for act in attempts(number)]
        pq.write_table(pa.Table.from_pylist(batch[:: 3 - 2 * step]), folder / f"completions_{step:05d}.parquet")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rollouts of eleven of twelve rows: one row is never solved, the others now and then."""
    acts = [solution, failing]
    return write(tmp_path_factory.mktemp("trl"), ROWS, lambda number: [failing] if number == 3 else acts)


@pytest.fixture(scope="module")
def grown(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Grown:
    out = tmp_path_factory.mktemp("out") / "grown"
    return grow(folder.glob("*.parquet"), CLASS, known=folder / "train.jsonl", count=5, out=out)  # type: ignore[arg-type]


def test_class_and_data_set_give_verified_tasks(grown: Grown) -> None:
    assert len(grown.tasks) == 5 and {signal.kind for signal in grown.signals} == {"boundary"}
    world = make(f"{CLASS}@{grown.folder / 'known.jsonl'}")
    session = world.open()
    for task in grown.tasks:
        session.reset(task)
        assert session.score().reward == 0.0
        assert not any(session.step(call).error for call in task.calls)
        assert session.score().reward == 1.0 and set(task.world) == {"prompt", "cars", "goal"}


def by_command(folder: Path, environment: str, out: Path) -> list[str]:
    """The lines that `coevolve grow` prints."""
    known = str(folder / "train.jsonl")
    command = ["grow", str(folder), "--environment", environment, "--known", known, "--count", "5", "--out", str(out)]
    done = coevolve(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_rows_come_back_in_the_columns_of_the_data_set_with_the_new_answers(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = by_command(folder, CLASS, out)
    rows = [json.loads(row) for row in (out / "rows/train.jsonl").read_text().splitlines()]
    assert f"{out / 'rows'}: train.jsonl, 5 tasks in the columns of {folder / 'train.jsonl'}" in said and len(rows) == 5
    assert said[-1].startswith(f"read {out / 'report/index.html'}; ")
    for row, task in zip(rows, read_tasks(out / "tasks.jsonl"), strict=True):
        assert row.keys() == ROWS[0].keys() and row["prompt"][-1]["content"] == task.turns[0]
        assert row["goal"] != task.world["goal"]  # which answers the old request
        attempt = played(row, [(call.name, call.arguments) for call in task.calls], 1)
        assert attempt["Garage"] == 1.0 and played(row, [], 1)["Garage"] == 0.0


def test_class_without_a_reward_gets_no_rows(folder: Path, tmp_path: Path) -> None:
    """A reward function beside the class may read a column that holds the old answer."""
    shutil.copy(Path(inspect.getfile(Garage)), tmp_path / "garage_with_reward.py")
    text = "from garage_with_reward import Garage as Rewarding\n\n\nclass Garage(Rewarding):\n    get_reward = None\n"
    (tmp_path / "plain.py").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    said = by_command(folder, f"{tmp_path / 'plain.py'}:Garage", out)
    assert len(read_tasks(out / "tasks.jsonl")) == 5 and not (out / "rows").exists()
    assert any(line.startswith("no rows: garage has no get_reward, so nothing tells whether") for line in said)


def test_references_are_the_agents_own_and_the_class_scores_them(grown: Grown) -> None:
    """Rows with the same prompt are told apart by the answers of the class."""
    known = read_tasks(grown.folder / "known.jsonl")
    right = {json.dumps(row["cars"]): solution(row) for row in ROWS}
    assert len(known) == 11 and all(
        [(call.name, call.arguments) for call in task.calls] == right[json.dumps(task.world["cars"])] for task in known
    )
    assert "11 references from rollouts with reward 1, replayed" in grown.notes
    assert any(note.startswith("rows that no rollout solves, left out: 1 of 12 (such as 'Park") for note in grown.notes)


def test_tools_are_those_that_trl_shows(grown: Grown) -> None:
    from transformers.utils import get_json_schema

    world = make(CLASS)
    assert list(world.tools()) == [get_json_schema(Garage.find), get_json_schema(Garage.park)]
    with pytest.raises(CoevolveError, match="holds no tasks; name them, as in FILE"):
        world.tasks("seed")


def test_rows_play_without_references_and_the_class_gives_the_reward(folder: Path) -> None:
    world = make(f"{CLASS}@{folder / 'train.jsonl'}")
    tasks = world.tasks("seed")
    session = world.open()
    assert session.reset(tasks[0]).content == "Park the car of Ada on level 3.\nThere are 4 cars." and len(tasks) == 12
    assert session.score().reward == 0.0 and not tasks[0].calls
    for name, arguments in solution(ROWS[0]):
        session.step(ToolCall(name, arguments))
    assert session.score().reward == 1.0


@pytest.mark.parametrize("kind", ["parquet", "datasets"])
def test_data_set_may_be_parquet_or_a_folder_of_datasets(kind: str, tmp_path: Path) -> None:
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    else:
        from datasets import Dataset

        Dataset.from_list(ROWS).save_to_disk(str(tmp_path / "train.parquet"))
    tasks = make(f"{CLASS}@{tmp_path / 'train.parquet'}").tasks("seed")
    assert [task.world for task in tasks] == ROWS


def refused(folder: Path, place: str, out: Path, **options: Any) -> str:
    with pytest.raises(CoevolveError) as error:
        grow(folder, place, out=out, **{"known": folder / "train.jsonl", **options})
    assert "\n" not in str(error.value) and not out.exists()
    return str(error.value)


SOURCE = Path(CLASS.partition(":")[0]).read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    def reset(", "    def __init__(self, size):\n        pass\n\n    def reset(", "made without arguments"),
        ('        """Find the cars of an owner.', '        "', "Garage.find is no tool that TRL can show: .*docstring"),
        (
            "is on level {level}",
            "stands on {level}",
            r"the highest is 0.*; the class answers .* rollouts, left out .*park\(plate='K-0', level=3\) gives",
        ),
        (
            "self.goal = json",
            "self.rows = (n for n in ()); self.goal = json",
            "Garage.rows is a generator that cannot be",
        ),
        ("self.goal = json", "self.id = __import__('uuid').uuid4().hex; self.goal = json", r"\(id differ\)"),
        ("self.cars = json", "open('/no/socket'); self.cars = json", "Garage.reset fails .*FileNotFoundError"),
        ("cars: str,", "vans: str,", "Garage.reset fails on a row with prompt, cars, goal: TypeError: .*'vans'"),
    ],
)
def test_class_that_cannot_be_replayed_is_one_line(
    old: str, new: str, message: str, folder: Path, tmp_path: Path
) -> None:
    name = f"garage_{abs(hash(new)) % 10**9}"
    text = SOURCE.replace(old, new)
    if '"""Find' in old:
        text = text.replace('        Args:\n            owner: The owner\'s name.\n        """', '"', 1).replace(
            '"\n\n"', '"none"'
        )
    assert text != SOURCE
    (tmp_path / f"{name}.py").write_text(text)

    said = refused(folder, f"{tmp_path / name}.py:Garage", tmp_path / "out")
    assert re.search(message, said), said


def test_rewards_that_show_no_solution_are_one_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "trl", ROWS[:2], lambda number: [failing, failing])
    assert "no rollout has the full reward (the highest is 0)" in refused(folder, CLASS, tmp_path / "out")
    for file in folder.glob("*.parquet"):
        pq.write_table(pq.read_table(file).drop_columns(["Garage"]), file)
    assert "no score or reward" in refused(folder, CLASS, tmp_path / "out")


def test_without_a_data_set_the_command_names_it(folder: Path, tmp_path: Path) -> None:
    assert "--known is missing: name the data set that Garage.reset" in refused(
        folder, CLASS, tmp_path / "o", known=None
    )


def test_broken_file_is_counted_and_the_others_go_on(tmp_path: Path) -> None:
    folder = write(tmp_path / "trl", ROWS[:4], lambda number: [solution, failing])
    (folder / "completions_00003.parquet").write_bytes(b"PAR1 torn")
    said: list[str] = []
    grow(folder, CLASS, known=folder / "train.jsonl", count=1, out=tmp_path / "out", say=said.append)
    assert any("1 left out: not a Parquet file" in line for line in said), said
