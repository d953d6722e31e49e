"""`coevolve grow` turns rollouts of a trainer into verified tasks, in an empty folder and without DVC."""

import html
import json
import re
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.commands import lineage
from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_tasks
from coevolve.core.scratch import alone
from coevolve.core.task import Task
from coevolve.environments.registry import make
from coevolve.rollouts.grow_loop import Grown, grow
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library
from tests import POLICY, ROOT

MADE = ROOT / "tests/unit/rollouts/made"
KNOWN = MADE / "tasks.jsonl"
COUNT = 6
VARIES = (
    "data_docs",
    "scratch",
    "report",
)  # pages of Great Expectations hold the time of day, the report links to them


def content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "params.yaml")
    return {
        str(name): file.read_bytes()
        for file in files
        if not set(VARIES) & set((name := file.relative_to(folder)).parts)
    }


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return grow(MADE / "verl", "miniworld", known=KNOWN, count=COUNT, out=tmp_path_factory.mktemp("grown") / "out")


def test_grown_tasks_are_new_and_pass_verification_again(grown: Grown) -> None:
    assert len(grown.tasks) == COUNT == sum(verdict.accepted for verdict in grown.verdicts)
    world, known = make("miniworld"), read_tasks(KNOWN)
    panels = {name: world.tasks(name) for name in world.panels}
    lines = (grown.folder / "tasks.jsonl").read_text().splitlines()
    judged = verify("miniworld", lines, Library(known, panels, 0.9))
    assert len(lines) == COUNT and all(verdict.accepted for verdict, _ in judged)
    assert all(gate.reason for verdict in grown.verdicts if (gate := verdict.refusal))
    assert {signal.kind for signal in grown.signals} == {"boundary", "forgetting"}


def test_lineage_leads_to_lines_of_the_trainers_files(
    grown: Grown, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(grown.folder)
    monkeypatch.setenv("COLUMNS", "500")
    lineage.run(Namespace(name=grown.tasks[0].task_id))
    said = capsys.readouterr().out
    places = re.findall(r"trajectory (\S+\.jsonl):(\d+), failed, .* in (.+)", said)
    assert places and "policies/" not in said
    for file, line, folder in places:
        assert json.loads((Path(folder) / file).read_text().splitlines()[int(line) - 1])["input"]


def test_page_shows_the_tasks_and_needs_no_network(grown: Grown) -> None:
    page = (grown.folder / "report/index.html").read_text()
    assert all(task.task_id[:8] in page for task in grown.tasks)
    assert "http" not in page.replace("http-equiv", "") and "Champion" not in page
    assert all(html.escape(note, quote=False) in page for note in grown.notes)
    assert (grown.folder / "data/1/validation/quarantine.jsonl").exists()


def test_killed_run_goes_on_and_gives_the_same_bytes(grown: Grown, tmp_path: Path) -> None:
    """Finished stages are kept, and a stage that was killed within leaves nothing behind."""
    out, said = tmp_path / "out", list[str]()
    shutil.copytree(grown.folder, out)
    for stage in ("synthesize", "verify", "validate", "report"):
        (out / "scratch/grow" / f"{stage}.json").unlink()
    (out / "data/0/candidates.jsonl").write_text('{"torn')
    (out / "data/0/signals.jsonl").unlink()
    grow(MADE / "verl", "miniworld", known=KNOWN, count=COUNT, out=out, say=said.append)
    assert content(out) == content(grown.folder)
    done = [line.partition(" ")[0] for line in said if "(done before)" in line]
    assert set(done) == {"train", "explore"}, "signals were found again"


def test_other_parameters_and_other_tasks_with_the_same_ids_run_again(tmp_path: Path) -> None:
    def again(known: list[Task], panel: list[Task], **params: object) -> set[str]:
        said = list[str]()
        dotted = {key.replace("__", "."): value for key, value in params.items()}
        options = {"count": 1, "params": dotted, "say": said.append, "out": tmp_path / "out"}
        grow(MADE / "verl", "miniworld", known=known, panels={"mine": panel}, **options)  # type: ignore[arg-type]
        return {line.partition(":")[0] for line in said if ":" in line and "(done" not in line.partition(":")[0]}

    known = read_tasks(KNOWN)
    panel = [replace(task, task_id=f"panel-{n}") for n, task in enumerate(make("miniworld").tasks("test")[:2])]
    stages = {"train", "signals", "explore", "synthesize", "verify", "validate"}
    assert stages <= again(known, panel)
    assert not stages & again(known, panel)
    assert stages & again(known, panel, verify__near_duplicate=0.8) == {"verify"}
    reworded = [*panel[:-1], replace(panel[-1], turns=["something else"])]
    assert "verify" in again(known, reworded, verify__near_duplicate=0.8)


def test_policy_selects_the_most_learnable_tasks(tmp_path: Path) -> None:
    params = {"verify.policy": str(POLICY), "verify.pass_rate_samples": 2}
    grown = grow(MADE / "verl", "miniworld", known=KNOWN, count=2, params=params, out=tmp_path / "out")
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
        ({"params": {"explore.explorer": "llm"}}, "-S: explore.explorer: .*expected one of: scripted, endpoint"),
        ({"params": {"signal.window": 3}}, "-S: .*signal.*signals"),
        ({"params": {"train.learner": "grpo"}}, "-S train.learner=grpo: grow imports rollouts"),
        ({"params": {"verify.policy": "none/here"}}, "verify.policy: none/here: no such folder"),
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
    page = (tmp_path / "out/report/index.html").read_text()
    assert script not in page and "\x1b" not in page
    assert any("tools of the rollouts that miniworld does not have: 1 (" in line for line in said)


def test_second_command_in_the_same_folder_is_a_one_line_error(tmp_path: Path) -> None:
    with (
        alone(tmp_path / ".lock", "of the test"),
        pytest.raises(CoevolveError, match="another process works here"),
    ):
        grow(MADE / "verl", "miniworld", known=KNOWN, out=tmp_path)


def test_missing_extra_is_a_one_line_error_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coevolve.rollouts.grow_loop.find_spec", lambda name: None)
    with pytest.raises(CoevolveError, match=r"Great Expectations, .* run `pip install 'coevolve\[train\]'`"):
        grow(MADE / "verl", "miniworld", known=KNOWN, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
