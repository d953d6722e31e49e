import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.cli import COMMANDS
from coevolve.core.io import read_tasks, write_jsonl
from coevolve.environments.registry import make
from tests import ROOT
from tests.cli import coevolve


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_of_every_command_is_printed(command: list[str]) -> None:
    done = coevolve(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: coevolve" in done.stdout
    assert "\n  stage " not in done.stdout, "dvc.yaml types it, people do not"


def test_commands_of_a_project_work_in_its_subfolders(tmp_path: Path) -> None:
    for name in ("params.yaml", "dvc.yaml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    below = tmp_path / "data/0"
    below.mkdir(parents=True)
    (below / "mine.json").write_text("{")
    assert coevolve("params", "seed", cwd=below).stdout.startswith("seed: 0\n")
    assert coevolve("summary", cwd=below).stderr.startswith("error: report/summary.json: no such file")
    typed = coevolve("summary", "mine.json", cwd=below).stderr
    assert typed == coevolve("summary", "data/0/mine.json", cwd=tmp_path).stderr and "error: data/0/mine.json" in typed
    assert "params.yaml: no such file" in coevolve("params", "seed", cwd=tmp_path.parent).stderr


def test_signals_command_shows_the_instructions_of_weak_tasks(tmp_path: Path) -> None:
    from tests.unit.rollouts.test_real_files import KNOWN, MADE

    coevolve("import", "verl", str(MADE / "verl"), "--out", "t.parquet", cwd=tmp_path)
    done = coevolve("signals", "t.parquet", "--out", "s.jsonl", "--kinds", "boundary", cwd=tmp_path)
    assert "solved now and then: 1 task" in done.stdout.splitlines(), done.stderr
    assert any(f'"{task.turns[0][:60].strip()}": 1 of 2 solved' in done.stdout for task in KNOWN)
    told = json.loads(coevolve("signals", "t.parquet", "--out", "s.jsonl", "--json", cwd=tmp_path).stdout)
    assert told["signals"]["boundary"] == 1 and told["strongest"][0]["evidence"]


def test_panel_files_with_the_same_name_are_both_used(tmp_path: Path) -> None:
    tasks = make("miniworld").tasks("seed")[:3]
    write_jsonl(tmp_path / "c.jsonl", tasks)
    panels = []
    for folder, task in zip(("a", "b"), tasks, strict=False):
        write_jsonl(tmp_path / folder / "test.jsonl", [task])
        panels += ["--panel", f"{folder}/test.jsonl"]
    arguments = ["--environment", "miniworld", "--candidates", "c.jsonl", *panels, "--out", "out"]
    done = coevolve("verify", *arguments, cwd=tmp_path)
    assert "out: 1 of 3 accepted" in done.stdout, done.stdout + done.stderr
    assert [task.task_id for task in read_tasks(tmp_path / "out/accepted.jsonl")] == [tasks[2].task_id]


def test_verify_judges_a_file_of_tasks(tmp_path: Path) -> None:
    tasks = make("miniworld").tasks("seed")[:3]
    write_jsonl(tmp_path / "c.jsonl", tasks)
    (tmp_path / "c.jsonl").open("a").write("garbage\n")
    write_jsonl(tmp_path / "known.jsonl", tasks[:1])
    arguments = ["--environment", "miniworld", "--candidates", "c.jsonl", "--known", "known.jsonl", "--out", "out"]
    done = coevolve("verify", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "out: 2 of 4 accepted"
    assert "         candidate 1: duplicate: the same as a known task" in lines
    assert any(line.startswith("         candidate 4: readable: not JSON") for line in lines)
    assert coevolve("verify", *arguments, "--fail", cwd=tmp_path).returncode == 1
    told = json.loads(coevolve("verify", *arguments, "--json", cwd=tmp_path).stdout)
    assert told["accepted"] == 2 and [row["candidate"] for row in told["rejected"]] == [1, 4]
    assert told["not_checked"] == {"collateral": 2}
    assert [task.task_id for task in read_tasks(tmp_path / "out/accepted.jsonl")] == [t.task_id for t in tasks[1:]]
    (tmp_path / "hostile.jsonl").write_text(
        json.dumps({**asdict(tasks[1]), "environment": "\x1b]0;x\x07\nmini"}) + "\n"
    )
    hostile = coevolve("verify", *arguments[:3], "hostile.jsonl", *arguments[4:], cwd=tmp_path).stdout
    assert "candidate 1: readable: belongs to environment" in hostile and hostile.count("\n") == 3
    assert hostile.replace("\n", "").isprintable()


@pytest.mark.parametrize(("last", "end"), [("done", "success"), ("/quit", "no success")])
def test_play_takes_calls_and_messages(last: str, end: str) -> None:
    task = make("miniworld").tasks("seed")[0]
    calls = [f"{call.name}({', '.join(f'{k}={v!r}' for k, v in call.arguments.items())})" for call in task.reference[0]]
    typed = ["/tools archive", "find_contact(name=unquoted)", "no_such_tool()", *calls, last]
    if last == "/quit":
        typed.remove(calls[-1])
    done = coevolve("play", "miniworld", task.task_id[:10], typed="\n".join(typed))
    assert done.returncode == 0, done.stderr
    assert task.turns[0] in done.stdout
    assert "archive_mail(mail_id)" in done.stdout
    assert "expected literals" in done.stdout
    assert done.stdout.splitlines()[-1].endswith(end)


def test_evaluate_prints_a_table_by_category(tmp_path: Path) -> None:
    arguments = ["--environment", "miniworld", "--split", "test", "--tasks", "64", "--out", "outcomes.jsonl"]
    done = coevolve("evaluate", *arguments, "--policy", "reference", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if "goal" in line]
    assert [row[:2] + row[3:4] for row in rows] == [
        ["1", "goal", "1.000"],
        ["2", "goals", "1.000"],
        ["3", "goals", "1.000"],
    ]
    assert len((tmp_path / "outcomes.jsonl").read_text().splitlines()) == 64
    assert re.search(r"each success took [\d,]+ tokens, [\d.]+ s", done.stdout) and "pass@" not in done.stdout
    wrong = coevolve("evaluate", *arguments, "--policy", "nowhere", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "no such directory" in wrong.stderr
