"""`coevolve grow` turns rollouts of a trainer into verified tasks, in an empty folder and without DVC."""

import html
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects, read_tasks
from coevolve.core.scratch import alone
from coevolve.core.task import Task
from coevolve.environments.registry import make
from coevolve.rollouts.grown_tasks import Grown, grow
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library
from tests import ROOT

MADE = ROOT / "tests/unit/rollouts/made"
KNOWN = MADE / "tasks.jsonl"
COUNT = 6
STEPS = ("read", "signals", "explore", "synthesize", "verify", "select")
VARIES = ("data_docs", "work")  # Great Expectations' pages hold the time of day


def content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(name): file.read_bytes() for file in files if (name := file.relative_to(folder)).parts[0] not in VARIES}


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return grow(MADE / "verl", "miniworld", known=KNOWN, count=COUNT, out=tmp_path_factory.mktemp("grown") / "out")


def test_grown_tasks_are_new_and_pass_verification_again(grown: Grown) -> None:
    assert len(grown.tasks) == COUNT == sum(verdict.accepted for verdict in grown.verdicts)
    world, known = make("miniworld"), read_tasks(KNOWN)
    panels = {name: world.tasks(name) for name in world.panels}
    judged = verify("miniworld", [json.dumps(row) for row in rows(grown, "tasks")], Library(known, panels, 0.9))
    assert all(verdict.accepted for verdict, _ in judged)
    assert all(gate.reason for verdict in grown.verdicts if (gate := verdict.refusal))
    assert {signal.kind for signal in grown.signals} == {"boundary", "forgetting"}


def rows(grown: Grown, name: str) -> list[dict[str, object]]:
    return [row for _, row in read_jsonl_objects(grown.folder / f"{name}.jsonl")]


def test_lineage_leads_to_lines_of_the_trainers_files(grown: Grown) -> None:
    lineage = rows(grown, "lineage")
    assert [row["task_id"] for row in lineage] == [task.task_id for task in grown.tasks]
    addresses = {name for row in lineage for name in row["rollouts"]}  # type: ignore[attr-defined]
    assert addresses
    for address in addresses:
        file, _, line = address.partition(":")
        assert json.loads((MADE / "verl" / file).read_text().splitlines()[int(line) - 1])["input"]


def test_page_shows_the_tasks_and_needs_no_network(grown: Grown) -> None:
    page = (grown.folder / "index.html").read_text()
    assert all(task.task_id in page for task in grown.tasks)
    assert "http" not in page.replace("http-equiv", "") and "<script" not in page
    assert all(f"<li>{html.escape(note, quote=False)}</li>" in page for note in grown.notes)
    assert 'class="note"' not in page, "facts are no warnings"
    assert (grown.folder / "validation/quarantine.jsonl").exists() and (grown.folder / "data_docs/index.html").exists()


def test_same_inputs_give_the_same_bytes_and_finished_steps_are_kept(grown: Grown, tmp_path: Path) -> None:
    """After a kill, the same command gives the bytes of an uninterrupted run, and torn files go."""
    out = tmp_path / "out"
    shutil.copytree(grown.folder, out)
    for name in STEPS[3:]:
        (out / "work" / f"{name}.json").unlink()
    (out / "signals.jsonl").unlink()
    torn = [out / name for name in (".tasks.jsonl.77.tmp", "work/.trajectories.parquet.77.tmp")]
    for file in torn:
        file.write_text("{")
    said: list[str] = []
    grow(MADE / "verl", "miniworld", known=KNOWN, count=COUNT, out=out, say=said.append)
    assert content(out) == content(grown.folder) and not any(file.exists() for file in torn)
    assert len({line.partition(" ")[0] for line in said if "(done before)" in line}) == 2, "signals were made again"


class Said(Exception):
    """The first line of a command."""


def test_other_options_and_other_tasks_with_the_same_ids_begin_anew(tmp_path: Path) -> None:
    def first_line(known: list[Task], panel: list[Task], count: int = 1) -> str:
        def say(line: str) -> None:
            raise Said(line)

        panels, out = {"mine": panel}, tmp_path / "out"
        with pytest.raises(Said) as said:
            grow(MADE / "verl", "miniworld", known=known, panels=panels, count=count, out=out, say=say)
        return str(said.value)

    known = read_tasks(KNOWN)
    panel = [replace(task, task_id=f"panel-{n}") for n, task in enumerate(make("miniworld").tasks("test")[:2])]
    assert "done before" not in first_line(known, panel)
    assert "done before" in first_line(known, panel)
    assert "done before" not in first_line(known, panel, count=2)
    reworded = [[*tasks[:-1], replace(tasks[-1], turns=["something else"])] for tasks in (known, panel)]
    assert "done before" not in first_line(reworded[0], panel)
    assert "done before" not in first_line(reworded[0], reworded[1])


def test_policy_selects_the_most_learnable_tasks(tmp_path: Path) -> None:
    policy = str(ROOT / "policies/base")
    grown = grow(MADE / "verl", "miniworld", known=KNOWN, count=2, samples=2, policy=policy, out=tmp_path / "out")
    rates = {task.provenance.pass_rate for task in grown.tasks if task.provenance}
    assert rates <= {0.0, 0.5, 1.0} and len(grown.tasks) == 2
    assert any("others are worth more" in gate.reason for verdict in grown.verdicts for gate in verdict.gates)


TEST = make("miniworld").tasks("test")[:6]


def spelled(task: Task, world: dict[str, object], words: str) -> Task:
    """The same task with another id, more keys in its world, and other ``words``."""
    return replace(
        task, task_id=f"mine {task.task_id}", world={**task.world, **world}, turns=[words.format(*task.turns, "")]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "expected 1 or more"),
        ({"explorer": "llm"}, "explorer: .*expected one of: scripted, endpoint"),
        ({"policy": "none/here"}, "--policy none/here: no such folder"),
        ({"environment": "minworld"}, "'minworld' is unknown"),
        ({"known": []}, "--known: no tasks"),
        ({"known": make("miniworld").tasks("test")[:3]}, "--known: 3 of 3 tasks are of the panel test"),
        (
            {"known": [spelled(task, {"x": 1}, "kindly {} ") for task in TEST]},
            "--known: 6 of 6 tasks are of the panel test",
        ),
        (
            {"known": [spelled(task, {}, "other words {1}") for task in TEST]},
            "--known: 6 of 6 tasks are of the panel test",
        ),
        ({"panels": {"mine": [replace(read_tasks(KNOWN)[0], task_id="x")]}}, "1 of 6 tasks are of the panel mine"),
    ],
)
def test_wrong_option_is_a_one_line_error_and_leaves_no_folder(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    given = {"environment": "miniworld", "known": KNOWN, **options}
    with pytest.raises(CoevolveError, match=message) as error:
        grow(MADE / "verl", out=tmp_path / "out", **given)  # type: ignore[arg-type]
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_rollouts_without_a_known_task_are_refused_with_count_and_first_line(tmp_path: Path) -> None:
    tasks = [replace(task, turns=["something else"]) for task in read_tasks(KNOWN)[:1]]
    with pytest.raises(CoevolveError) as error:
        grow(MADE / "verl", "miniworld", known=tasks, out=tmp_path / "out")
    assert "12 left out: no task id, and no known task begins with its first request (first: 1.jsonl:1)" in str(
        error.value
    )


def test_hostile_texts_of_rollouts_are_escaped(tmp_path: Path) -> None:
    row = json.loads((MADE / "verl/1.jsonl").read_text().splitlines()[0])
    script = "<script>alert(1)</script>"
    call = f'<tool_call>{{"name": "{script}\\u001b[2J"}}</tool_call>\nuser\n<tool_response>ok</tool_response>'
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({**row, "score": score, "output": call}) for score in (0, 1))
    )
    said: list[str] = []
    grow(tmp_path / "a.jsonl", "miniworld", known=KNOWN, count=1, out=tmp_path / "out", say=said.append)
    page = (tmp_path / "out/index.html").read_text()
    assert script not in page and "\x1b" not in page
    assert any("tools of the rollouts that miniworld does not have: 1 (" in line for line in said)


def test_second_command_in_the_same_folder_is_a_one_line_error(tmp_path: Path) -> None:
    with (
        alone(tmp_path / "work/.lock", "of the test"),
        pytest.raises(CoevolveError, match="another process works here"),
    ):
        grow(MADE / "verl", "miniworld", known=KNOWN, out=tmp_path)


def test_missing_extra_is_a_one_line_error_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.rollouts.grown_tasks.find_spec", lambda name: None)
    with pytest.raises(CoevolveError, match=r"Great Expectations, .* run `pip install 'coevolve\[train\]'`"):
        grow(MADE / "verl", "miniworld", known=KNOWN, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
