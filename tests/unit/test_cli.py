import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from coevolve.cli import COMMANDS
from coevolve.core.io import read_tasks, write_jsonl
from coevolve.environments.contract import CHECKS
from coevolve.environments.registry import make
from tests import ROOT
from tests.waiting import PATIENCE


def coevolve(*arguments: str, cwd: Path | None = None, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from coevolve.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=PATIENCE, input=typed)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_help_teaches(command: list[str]) -> None:
    done = coevolve(*command, "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: coevolve" in done.stdout


def test_a_missing_file_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    done = coevolve("summary", "nowhere.json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: nowhere.json: no such file")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("shown", [["profile", "show", "laptop"], ["env", "show", "miniworld"]])
def test_who_stops_reading_hears_no_error(shown: list[str]) -> None:
    """As ``| head`` does: before the first line is printed, or when all of it is on its way out."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "from coevolve.cli import main; main()", *shown]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_cheap_commands_do_not_load_heavy_packages() -> None:
    code = (
        "import sys, coevolve.cli\n"
        f"for name in {list(COMMANDS)}: coevolve.cli.module(name)\n"
        "print([m for m in ('torch', 'mlflow', 'great_expectations', 'trl', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_signals_of_any_trainers_trajectories(tmp_path: Path) -> None:
    rows = [
        {"task_id": "a", "step": step, "score": score, "calls": [{"name": "x"}, {"name": "y", "ok": False}]}
        for step, score in ((0, 1.0), (0, 0.0), (1, 0.0), (1, 0.0))
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = coevolve("signals", "t.jsonl", "--out", "s.jsonl", "--window", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "s.jsonl: 1 forgetting, 1 boundary, 0 rare",
        "  1.00  forgetting  task a",
        "  1.00  boundary    task a",
    ]
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert kinds == ["forgetting", "boundary"]
    wrong = coevolve("signals", "t.jsonl", "--out", "s.jsonl", "--window", "1", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr[:14]) == (1, "error: window:")


def test_signals_show_the_words_of_weak_tasks(tmp_path: Path) -> None:
    from tests.unit.rollouts.test_real_files import KNOWN, MADE

    coevolve("import", "verl", str(MADE / "verl"), "--out", "t.parquet", cwd=tmp_path)
    done = coevolve("signals", "t.parquet", "--out", "s.jsonl", "--kinds", "boundary", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "s.jsonl: 1 boundary", done.stderr
    assert done.stdout.splitlines()[1].split(maxsplit=2)[2] in [task.turns[0] for task in KNOWN]
    told = json.loads(coevolve("signals", "t.parquet", "--out", "s.jsonl", "--json", cwd=tmp_path).stdout)
    assert told["signals"]["boundary"] == 1 and told["strongest"][0]["evidence"]
    rows = [{"task_id": KNOWN[0].task_id, "step": 0, "score": score} for score in (0, 1)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = ("--known", str(MADE / "tasks.jsonl"))
    assert KNOWN[0].turns[0] in coevolve("signals", "t.jsonl", "--out", "s.jsonl", *known, cwd=tmp_path).stdout


def test_verify_prints_json(tmp_path: Path) -> None:
    tasks = [asdict(task) for task in make("miniworld").tasks("seed")[:2]]
    lines = [tasks[0], {**tasks[1], "task_id": "forged"}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    arguments = ["verify", "--environment", "miniworld", "--candidates", "c.jsonl", "--out", "out", "--json"]
    told = json.loads(coevolve(*arguments, cwd=tmp_path).stdout)
    assert told["accepted"] == 1 and [row["candidate"] for row in told["rejected"]] == [2]
    assert told["not_checked"] == {"collateral": 1}


def test_two_panel_files_of_one_name_both_hold(tmp_path: Path) -> None:
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
    assert [task.task_id for task in read_tasks(tmp_path / "out/accepted.jsonl")] == [t.task_id for t in tasks[1:]]
    (tmp_path / "hostile.jsonl").write_text(
        json.dumps({**asdict(tasks[1]), "environment": "\x1b]0;x\x07\nmini"}) + "\n"
    )
    hostile = coevolve("verify", *arguments[:3], "hostile.jsonl", *arguments[4:], cwd=tmp_path).stdout
    assert "candidate 1: readable: belongs to environment" in hostile and hostile.count("\n") == 3
    assert hostile.replace("\n", "").isprintable()
    unknown = coevolve("verify", "--environment", "minworld", *arguments[2:], cwd=tmp_path)
    assert unknown.returncode == 1
    assert "'minworld' is unknown; expected one of:" in unknown.stderr
    assert "miniworld" in unknown.stderr


def test_an_audit_says_what_it_finds_and_exits_by_severity(tmp_path: Path) -> None:
    arguments = ["env", "audit", "miniworld", "--tasks", "2", "--out", "audit"]
    only = ["--only", "semantic.oracle_max", "data.near"]
    done = coevolve(*arguments, *only, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "semantic.oracle_max" in done.stdout and "WARN" in done.stdout and "1 passed, 1 failed: warn" in done.stdout
    read = json.loads((tmp_path / "audit/audit.json").read_text())
    assert read["environment"] == "miniworld" and read["worst"] == "warn"
    assert "data.near" in (tmp_path / "audit/index.html").read_text()
    assert coevolve(*arguments, *only, "--fail-on", "warn", cwd=tmp_path).returncode == 1
    policy = coevolve(*arguments, "--policy", "nowhere", cwd=tmp_path)
    assert policy.stderr == "error: --policy nowhere: no such directory; expected a model directory\n"
    skill = ["--policy", str(ROOT / "policies/base"), "--samples", "1", "--only", "statistical.difficulty"]
    done = coevolve(*arguments, *skill, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "audit/audit.json").read_text())["findings"][0]["measured"]
    assert 0.0 < measured["success"] < 1.0 and measured["episodes of each"] == 1
    assert not list(tmp_path.glob("mlruns")), "only a project has runs"


def test_env_lists_and_shows() -> None:
    assert "miniworld    miniworld-1" in coevolve("env", "list").stdout
    shown = coevolve("env", "show", "miniworld").stdout
    assert "find_contact(name: string, [city: string])" in shown and "tables()" in coevolve("env", "show", "sql").stdout
    assert f"tasks, such as: {make('miniworld').tasks('seed')[0].turns[0]}\n" in shown and shown.count("such as") == 1


def test_env_doctor_runs_the_contract() -> None:
    done = coevolve("env", "doctor", "miniworld", "--tasks", "2")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + len(CHECKS)
    assert all(line.endswith("ok") for line in lines[1:])


def test_env_install_of_an_unknown_name_lists_the_known() -> None:
    done = coevolve("env", "install", "nowhere")
    assert done.returncode == 1
    assert "miniworld" in done.stderr


@pytest.mark.parametrize(("last", "end"), [("done", "success"), ("/quit", "no success")])
def test_play_takes_calls_and_words(last: str, end: str) -> None:
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


BREAKS = """\
from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment


class Shelf:
    def __init__(self, books: dict[str, int]) -> None:
        self.books = books

    def take(self, title: str) -> str:
        self.books[title] -= 1  # a KeyError for a title that is not there
        return "taken"


class Shelves(MethodEnvironment):
    name, simulator = "shelves", Shelf

    def questions(self, split):
        yield f"take Emma ({split})", {"books": {"Emma": 2}}, [ToolCall("take", {"title": "Emma"})]
"""


def test_a_call_that_breaks_the_session_ends_play_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "shelves.py").write_text(BREAKS)
    (tmp_path / "pyproject.toml").write_text(
        '[project.entry-points."coevolve.environments"]\nshelves = "shelves:Shelves"\n'
    )
    done = coevolve("play", "shelves", cwd=tmp_path, typed='take("Emma")\ntake("Moby Dick")\n')
    assert (done.returncode, done.stderr) == (0, "")
    assert "the call broke the session: KeyError" in done.stdout and "score 0.00" in done.stdout


def test_play_names_what_is_wrong_with_the_task() -> None:
    done = coevolve("play", "miniworld", "100000")
    assert done.returncode == 1
    assert "number below 256" in done.stderr


def test_evaluate_plays_each_task_several_times(tmp_path: Path) -> None:
    arguments = [
        "--environment",
        "miniworld",
        "--split",
        "test",
        "--tasks",
        "12",
        "--policy",
        str(ROOT / "policies/base"),
    ]
    done = coevolve("evaluate", *arguments, "--samples", "3", "--temperature", "1", "--out", "o.jsonl", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert len(lines) == 36 and len({one["task_id"] for one in lines}) == 12
    assert len({(one["task_id"], one["tokens"]) for one in lines}) > 12, "samples of a task differ"
    header = next(line for line in done.stdout.splitlines() if "category" in line).split()
    assert header == ["category", "tasks", "success", "pass@2", "pass@3", "pass^2", "pass^3"]
    (row,) = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("1 goal")]
    ours = [one for one in lines if one["category"] == "1 goal"]
    counts = [
        sum(one["success"] for one in ours if one["task_id"] == name) for name in {one["task_id"] for one in ours}
    ]
    assert int(row[2]) == len(counts)
    assert float(row[6]) == pytest.approx(sum(count > 0 for count in counts) / len(counts), abs=5e-4), "pass@3 of 3"
    assert float(row[8]) == pytest.approx(sum(count == 3 for count in counts) / len(counts), abs=5e-4), "pass^3 of 3"
    greedy = coevolve("evaluate", *arguments, "--samples", "3", cwd=tmp_path)
    assert greedy.returncode == 1 and "set --temperature" in greedy.stderr


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
