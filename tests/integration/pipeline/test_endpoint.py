"""`dvc repro` with an LLM that explores and writes: first with a real server, then without one."""

import json
from pathlib import Path

import pytest

from coevolve.core.io import read_jsonl
from coevolve.core.records import Exploration, Verdict
from coevolve.core.task import Task
from tests.project import Project, clone

SECRET = "-".join(["sk", "not", "to", "be", "found", "anywhere", "42"])  # in one piece it would be in this file


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, explorer_server: tuple[str, str], cache: Path) -> Project:
    """A clone in which `dvc repro` has run once with an endpoint."""
    project = clone(tmp_path_factory.mktemp("asked"), cache)
    project.environment["OPENAI_API_KEY"] = SECRET
    project.set(
        explore__explorer="endpoint",
        explore__explorations=6,
        synthesize__synthesizer="endpoint",
        endpoint__url=explorer_server[0],
        endpoint__model=explorer_server[1],
        endpoint__temperature=1.0,
        endpoint__input_price=1.0,
    )
    project.dvc("repro")
    return project


def test_report_states_spending_and_lineage_is_whole(asked: Project) -> None:
    folder = asked.folder
    explorations = {one.exploration_id: one for one in read_jsonl(folder / "data/0/explorations.jsonl", Exploration)}
    accepted = read_jsonl(folder / "data/0/verified/accepted.jsonl", Task)
    assert explorations and accepted
    for task in accepted:
        assert task.provenance and task.provenance.prompt_version
        assert task.provenance.prompt_version.startswith("synthesize-")
        assert explorations[task.provenance.exploration_id].prompts
    spent = json.loads((folder / "report/summary.json").read_text())["budget"]
    lines = [
        (folder / f"data/0/requests/{stage}/requests.jsonl").read_text().count("\n")
        for stage in ("explore", "synthesize")
    ]
    assert spent["endpoint replies"] == sum(lines) > 6
    assert spent["endpoint dollars"] == pytest.approx(spent["endpoint prompt tokens"] * 1e-6)
    table = asked.run("coevolve", "summary").stdout
    assert f"{sum(lines)} endpoint replies" in table


def test_model_attempts_accepted_candidates(asked: Project) -> None:
    accepted = (asked.folder / "data/0/verified/accepted.jsonl").read_text().count("\n")
    asked.set(verify__solver_attempts=1)
    asked.dvc("repro", "verify@0")
    verdicts = read_jsonl(asked.folder / "data/0/verified/verdicts.jsonl", Verdict)
    gates = [gate for verdict in verdicts for gate in verdict.gates if gate.name == "solvable"]
    assert len(gates) == accepted  # and nobody else is asked about
    spent = json.loads((asked.folder / "data/0/requests/verify/spend.json").read_text())
    summary = json.loads((asked.folder / "data/0/summary/verify.json").read_text())
    assert summary["figures"]["endpoint replies"] == spent["replies"] >= accepted
    assert summary["figures"].get("rejected by solvable", 0) == sum(gate.passed is False for gate in gates)


def test_key_is_in_no_file(asked: Project) -> None:
    read = 0
    for file in asked.folder.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
            read += 1
    assert read > 100


def test_recorded_replies_replay_without_a_server(asked: Project, tmp_path: Path) -> None:
    folder = asked.folder
    before = {name: (folder / "data/0" / name).read_bytes() for name in ("explorations.jsonl", "candidates.jsonl")}
    log = tmp_path / "requests.jsonl"
    log.write_bytes(
        b"".join(
            (folder / f"data/0/requests/{stage}/requests.jsonl").read_bytes() for stage in ("explore", "synthesize")
        )
    )
    asked.set(endpoint__replay=str(log), endpoint__url="http://127.0.0.1:9/v1")
    asked.dvc("repro", "synthesize@0")
    assert before == {name: (folder / "data/0" / name).read_bytes() for name in before}


def test_unreachable_endpoint_is_a_one_line_error(asked: Project) -> None:
    asked.set(
        endpoint__replay=None, endpoint__url="http://127.0.0.1:9/v1", endpoint__retries=0, endpoint__model="other"
    )
    done = asked.dvc("repro", "synthesize@0", check=False)
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and "endpoint http://127.0.0.1:9/v1: no answer after 1 attempts" in errors[0]
