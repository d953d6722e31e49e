"""`coevolve grow`: rollouts of a trainer in, verified tasks out, in an empty folder, without DVC."""

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl_objects, read_tasks, write_jsonl
from coevolve.core.records import Verdict
from coevolve.environments.registry import make
from coevolve.rollouts.grow_options import GrowOptions
from coevolve.rollouts.grow_steps import FinishedSteps
from coevolve.rollouts.grown_tasks import Grown, _Growth, grow
from coevolve.stages.verify.judge import verify
from coevolve.stages.verify.library import Library
from tests import ROOT
from tests.servers import running
from tests.waiting import until

MADE = ROOT / "tests/unit/rollouts/made"
KNOWN = MADE / "tasks.jsonl"
COUNT = 6
VARIES = ("data_docs", "work")  # Great Expectations' pages hold the time of day
COMMAND = [sys.executable, "-m", "coevolve.cli", "grow", str(MADE / "verl"), "--environment", "miniworld"]
COMMAND += ["--known", str(KNOWN), "--count", str(COUNT), "--out"]


def content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(name): file.read_bytes() for file in files if (name := file.relative_to(folder)).parts[0] not in VARIES}


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    return grow(MADE / "verl", "miniworld", known=KNOWN, count=COUNT, out=tmp_path_factory.mktemp("grown") / "out")


def test_the_tasks_are_new_and_pass_verification_again(grown: Grown) -> None:
    assert len(grown.tasks) == COUNT == sum(verdict.accepted for verdict in grown.verdicts)
    world, known = make("miniworld"), read_tasks(KNOWN)
    panels = {name: world.tasks(name) for name in world.panels}
    judged = verify("miniworld", [json.dumps(row) for row in rows(grown, "tasks")], Library(known, panels, 0.9))
    assert all(verdict.accepted for verdict, _ in judged)
    assert all(gate.reason for verdict in grown.verdicts if (gate := verdict.refusal))
    assert {signal.kind for signal in grown.signals} == {"boundary", "forgetting"}


def rows(grown: Grown, name: str) -> list[dict[str, object]]:
    return [row for _, row in read_jsonl_objects(grown.folder / f"{name}.jsonl")]


def test_lineage_leads_back_to_lines_of_the_trainers_files(grown: Grown) -> None:
    lineage = rows(grown, "lineage")
    assert [row["task_id"] for row in lineage] == [task.task_id for task in grown.tasks]
    addresses = {name for row in lineage for name in row["rollouts"]}  # type: ignore[attr-defined]
    assert addresses
    for address in addresses:
        file, _, line = address.partition(":")
        assert json.loads((MADE / "verl" / file).read_text().splitlines()[int(line) - 1])["input"]


def test_the_page_shows_the_tasks_and_needs_no_network(grown: Grown) -> None:
    page = (grown.folder / "index.html").read_text()
    assert all(task.task_id in page for task in grown.tasks)
    assert "http" not in page.replace("http-equiv", "") and "<script" not in page
    assert (grown.folder / "validation/report.md").exists() and (grown.folder / "data_docs/index.html").exists()


def test_the_same_inputs_give_the_same_bytes_and_finished_steps_are_kept(grown: Grown, tmp_path: Path) -> None:
    """After a kill behind any step, the same command gives the bytes of a run that was not killed."""
    whole = content(grown.folder)
    for done in range(7):
        folder = tmp_path / str(done)
        shutil.copytree(grown.folder, folder)
        steps = json.loads((folder / "work/steps.json").read_text())
        (folder / "work/steps.json").write_text(json.dumps({**steps, "done": steps["done"][:done]}))
        said: list[str] = []
        grow(MADE / "verl", "miniworld", known=KNOWN, count=COUNT, out=folder, say=said.append)
        assert content(folder) == whole
        assert len({line.partition(" ")[0] for line in said if "(done before)" in line}) == done


def test_a_killed_command_goes_on(grown: Grown, tmp_path: Path) -> None:
    process = subprocess.Popen([*COMMAND, str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    until((tmp_path / "out" / "work" / "explorations.jsonl").exists, "explorations")
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run([*COMMAND, str(tmp_path / "out")], capture_output=True, text=True, check=True)
    assert "read (done before): 12 rollouts of 3 tasks in 1.jsonl, 2.jsonl" in done.stdout
    assert content(tmp_path / "out") == content(grown.folder)


def test_a_file_that_is_gone_is_made_again(grown: Grown, tmp_path: Path) -> None:
    shutil.copytree(grown.folder, tmp_path / "out")
    (tmp_path / "out/signals.jsonl").unlink()
    grow(MADE / "verl", "miniworld", known=KNOWN, count=COUNT, out=tmp_path / "out")
    assert content(tmp_path / "out") == content(grown.folder)


def test_other_options_begin_anew(grown: Grown, tmp_path: Path) -> None:
    shutil.copytree(grown.folder, tmp_path / "out")
    said: list[str] = []
    grow(MADE / "verl", "miniworld", known=KNOWN, count=2, out=tmp_path / "out", say=said.append)
    assert not any("done before" in line for line in said)
    assert len(read_tasks(tmp_path / "out/tasks.jsonl")) == 2


@pytest.mark.parametrize("other", ["known", "panel"])
def test_other_tasks_with_the_same_ids_begin_anew(tmp_path: Path, other: str) -> None:
    tasks = read_tasks(KNOWN)
    panel = [
        replace(task, task_id=f"panel-{number}") for number, task in enumerate(make("miniworld").tasks("test")[:2])
    ]
    given = {"known": tasks, "panel": panel}
    grow(MADE / "verl", "miniworld", known=tasks, panels={"mine": panel}, count=1, out=tmp_path / "out")
    given[other] = [*given[other][:-1], replace(given[other][-1], turns=["something else"])]
    said: list[str] = []
    grow(
        MADE / "verl",
        "miniworld",
        known=given["known"],
        panels={"mine": given["panel"]},
        count=1,
        out=tmp_path / "out",
        say=said.append,
    )
    assert said and not any("done before" in line for line in said)


def test_a_step_that_other_inputs_have_begun_is_done_again(tmp_path: Path) -> None:
    """A process with other inputs that was killed within a step may have replaced the files of the finished step."""

    def killed() -> None:
        (tmp_path / "result").write_text("of B")
        raise KeyboardInterrupt

    def write() -> None:
        (tmp_path / "result").write_text("of A")

    files = [tmp_path / "result"]
    assert FinishedSteps(tmp_path, "A").do("read", write, files)
    assert not FinishedSteps(tmp_path, "A").do("read", write, files)
    with pytest.raises(KeyboardInterrupt):
        FinishedSteps(tmp_path, "B").do("read", killed, files)
    assert FinishedSteps(tmp_path, "A").do("read", write, files)
    assert files[0].read_text() == "of A"


def test_a_policy_chooses_the_tasks_that_teach_most(tmp_path: Path) -> None:
    policy = str(ROOT / "policies/base")
    grown = grow(MADE / "verl", "miniworld", known=KNOWN, count=2, samples=2, policy=policy, out=tmp_path / "out")
    rates = {task.provenance.pass_rate for task in grown.tasks if task.provenance}
    assert rates <= {0.0, 0.5, 1.0} and len(grown.tasks) == 2
    assert any("others are worth more" in gate.reason for verdict in grown.verdicts for gate in verdict.gates)


def test_every_environment_of_a_mixture_keeps_tasks(tmp_path: Path) -> None:
    """The first environment alone has enough tasks, but it must not take every place."""
    world = make("miniworld+sql")
    tasks = sorted(world.tasks("seed")[:20], key=lambda task: task.environment)
    growth = _Growth(world.name, world, [], {}, GrowOptions(count=8), tmp_path, print)
    write_jsonl(growth.work / "accepted.jsonl", tasks)
    write_jsonl(growth.work / "verdicts.jsonl", [Verdict(task.task_id, task.task_id, True, []) for task in tasks])
    growth.select()
    numbers = Counter(task.environment for task in read_tasks(tmp_path / "tasks.jsonl"))
    assert numbers == {"miniworld": 4, "sql": 4}


class Scripted(BaseHTTPRequestHandler):
    """An explorer that plans an event, then is done; and a user of the tools that never follows a schema."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        acting = bool(asked.get("tools")) and asked["messages"][-1]["role"] == "user"
        number = len(asked["messages"][-1]["content"]) % 7
        days = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
        arguments = json.dumps({"title": "picnic", "day": days[number]})
        call = {"id": "c", "type": "function", "function": {"name": "add_event", "arguments": arguments}}
        message = {
            "role": "assistant",
            "content": "" if acting else "done",
            **({"tool_calls": [call]} if acting else {}),
        }
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if acting else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        body = json.dumps({"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Scripted)) as url:
        yield url


def test_a_served_model_explores_and_is_asked_once(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"known": KNOWN, "count": 1, "explorer": "endpoint", "url": server, "model": "scripted", "out": "out"}
    grown = grow(MADE / "verl", "miniworld", **options)  # type: ignore[arg-type]
    assert grown.tasks and all("add_event" in task.tools for task in grown.tasks)
    spend = json.loads(Path("out", "work", "requests", "explore", "spend.json").read_text())
    assert spend["replies"] > 0 and [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "expected 1 or more"),
        ({"explorer": "llm"}, "explorer: .*expected one of: scripted, endpoint"),
        ({"policy": "none/here"}, "--policy none/here: no such folder"),
        ({"url": "ftp://x"}, "url: "),
        ({"kinds": ("weak",)}, "kinds"),
        ({"format": "csv"}, "--format csv: expected one of: auto, verifiers"),
        ({"environment": "minworld"}, "'minworld' is unknown"),
        ({"known": []}, "--known: no tasks"),
    ],
)
def test_a_wrong_option_is_one_line_and_leaves_no_folder(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    given = {"environment": "miniworld", "known": KNOWN, **options}
    with pytest.raises(CoevolveError, match=message) as error:
        grow(MADE / "verl", out=tmp_path / "out", **given)  # type: ignore[arg-type]
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_rollouts_of_no_known_task_are_refused_with_their_number_and_first_line(tmp_path: Path) -> None:
    tasks = [replace(task, turns=["something else"]) for task in read_tasks(KNOWN)[:1]]
    with pytest.raises(CoevolveError) as error:
        grow(MADE / "verl", "miniworld", known=tasks, out=tmp_path / "out")
    assert "12 left out: no task id, and no known task begins with its first request (first: 1.jsonl:1)" in str(
        error.value
    )


def test_hostile_words_of_rollouts_stay_words(tmp_path: Path) -> None:
    row = json.loads((MADE / "verl/1.jsonl").read_text().splitlines()[0])
    script = "<script>alert(1)</script>"
    call = f'<tool_call>{{"name": "{script}\\u001b[2J"}}</tool_call><tool_response>ok</tool_response>'
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({**row, "score": score, "output": call}) for score in (0, 1))
    )
    said: list[str] = []
    grow(tmp_path / "a.jsonl", "miniworld", known=KNOWN, count=1, out=tmp_path / "out", say=said.append)
    page = (tmp_path / "out/index.html").read_text()
    assert script not in page and "\x1b" not in page
    assert any("tools of the rollouts that miniworld does not have: 1 (" in line for line in said)


def test_a_second_command_in_one_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    from coevolve.core.scratch import alone

    with alone(tmp_path / "out" / "work" / ".lock", "of the test"):
        done = subprocess.run([*COMMAND, str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 1 and "another process works here" in done.stderr


def test_a_missing_extra_is_one_line_before_any_work(tmp_path: Path) -> None:
    code = "import sys; sys.modules['great_expectations'] = None; from coevolve.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *COMMAND[3:], str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and not (tmp_path / "out").exists() and done.stdout == ""
    assert done.stderr.splitlines() == [
        "error: grow validates its tasks with Great Expectations, which is not installed; run `pip install 'coevolve[train]'`"
    ]


def test_known_and_panel_files_decide(tmp_path: Path) -> None:
    world = make("miniworld")
    write_jsonl(tmp_path / "panel.jsonl", world.tasks("test"))
    grown = grow(
        MADE / "trl", "miniworld", known=KNOWN, panels={"mine": tmp_path / "panel.jsonl"}, count=2, out=tmp_path / "out"
    )
    assert len(grown.tasks) == 2
    assert any(note.startswith("TRL: ") for note in grown.notes)
