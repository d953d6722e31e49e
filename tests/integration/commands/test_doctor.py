"""`coevolve doctor` on this machine. A requirement that is missing is broken; an option that is missing is not."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.commands.doctor import run
from coevolve.commands.env_template import declare
from coevolve.commands.profile import apply
from coevolve.core.arithmetic import CHOICE, able, in_effect
from coevolve.core.paths import Paths
from tests import POLICY, ROOT
from tests.integration.commands.test_init import OWN
from tests.integration.endpoint.proxy import proxy


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(Paths, "base", POLICY)  # a checkout has no policies/base before its first run
    file = tmp_path / "params.yaml"
    file.write_bytes((ROOT / "params.yaml").read_bytes())
    return file


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide installed third-party environments, because the doctor starts each of them."""
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "none"))


def said(params: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    code = run(argparse.Namespace(params=params, template=None))
    lines = capsys.readouterr().out.splitlines()
    return code, {line.split()[0]: line for line in lines if line and not line.startswith(" ")}


def test_default_project_is_healthy_on_this_machine(params: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(params, capsys)
    assert code == 0
    for name in ("python", "torch", "packages", "environment", "policy", "mlflow", "disk"):
        assert lines[name].split()[1] == "ok", lines[name]
    assert not any("BROKEN" in line for line in lines.values())


@pytest.mark.usefixtures("bare")
@pytest.mark.skipif(bool(shutil.which("nvidia-smi")), reason="this machine has a GPU")
def test_gpu_profile_is_broken_on_a_machine_without_a_gpu(params: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apply("qwen3-4b", params)
    code, lines = said(params, capsys)
    assert code == 1
    assert "BROKEN" in lines["gpu"] and "BROKEN" in lines["vllm"]
    assert "unreachable" in lines["endpoint"]


@pytest.mark.usefixtures("bare")
def test_endpoint_without_the_configured_model_is_broken(params: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = params.read_text().replace("explorer: scripted ", "explorer: endpoint ")
    with proxy() as server:
        text = text.replace("http://127.0.0.1:8000/v1", server.url).replace('model: "" ', "model: m ")
        params.write_text(text)
        code, lines = said(params, capsys)
    assert "BROKEN" not in lines["endpoint"] and "does not list its models" in lines["endpoint"]
    assert os.environ.get("OPENAI_API_KEY") or "no key in OPENAI_API_KEY" in lines["endpoint"]
    assert code == 0


@pytest.mark.usefixtures("bare")
def test_unreachable_tracking_server_is_broken(
    params: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    code, lines = said(params, capsys)
    assert code == 1 and "does not answer" in lines["mlflow"]


@pytest.mark.usefixtures("bare")
@pytest.mark.skipif(not able(), reason="this machine has no part in the shared arithmetic")
def test_doctor_reports_whether_arithmetic_is_shared(params: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = said(params, capsys)
    assert lines["arithmetic"].split()[1] == ("ok" if in_effect().shared else "-")
    command = [sys.executable, "-c", "from coevolve.cli import main; main()", "doctor", "--params", str(params)]
    environment = {**os.environ, CHOICE: "native"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    line, remedy = done.stdout[done.stdout.index("\narithmetic") :].splitlines()[1:3]
    assert line.split()[1:3] == ["-", "native"] and "results differ" in line
    assert remedy.strip() == f"unset {CHOICE}"


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("now", "mistake", "name", "reason"),
    [
        ("  model: tiny  ", "  model: /no/such/model  ", "policy", "is tiny, but base.model asks for /no/such/model"),
        ("  episode_tokens: 768", "  episode_tokens: 8", "prompt", "31 tools; an episode has 8,"),
    ],
)
def test_parameters_that_do_not_fit_the_project_are_broken(
    params: Path, capsys: pytest.CaptureFixture[str], now: str, mistake: str, name: str, reason: str
) -> None:
    params.write_text(params.read_text().replace(now, mistake, 1))
    code, lines = said(params, capsys)
    assert code == 1 and "BROKEN" in lines[name] and reason in lines[name]


@pytest.mark.usefixtures("bare")
def test_empty_lock_of_dvc_is_broken_with_the_remedy(
    params: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], cwd=tmp_path, check=True)
    (tmp_path / ".dvc/tmp").mkdir(exist_ok=True)
    (tmp_path / ".dvc/tmp/rwlock").touch()
    monkeypatch.chdir(tmp_path)
    code = run(argparse.Namespace(params=params, template=None))
    *_, line, remedy, _ = capsys.readouterr().out.splitlines()
    assert code == 1 and line.startswith("dvc            BROKEN  .dvc/tmp/rwlock is empty")
    assert remedy.strip() == "rm .dvc/tmp/rwlock"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bare: None) -> Path:
    """A project whose environment is a lamp that its reference does not light."""
    monkeypatch.chdir(tmp_path)
    for words in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(words, check=True)
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    return tmp_path / "params.yaml"


def test_environment_whose_reference_fails_is_broken(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = OWN.replace('"lamp"', '"dark"').replace("self.lit = not self.lit", "raise RuntimeError('no bulb')")
    (project.parent / "dark_lamp.py").write_text(text)
    declare("dark", "dark_lamp", "MyEnvironment", project.parent)
    project.write_text(project.read_text().replace("environment: miniworld", "environment: dark"))
    code, lines = said(project, capsys)
    assert code == 1 and "BROKEN" in lines["environment"] and "RuntimeError: no bulb" in lines["environment"]


def test_store_is_opened(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = said(project, capsys)
    assert "mlruns/mlflow.db (the first run creates it)" in lines["mlflow"]
    (project.parent / "mlruns").mkdir()
    (project.parent / "mlruns/mlflow.db").write_bytes(b"no database" * 100)
    code, lines = said(project, capsys)
    assert code == 1 and "BROKEN  MLflow refuses: " in lines["mlflow"] and "file is not a database" in lines["mlflow"]


def test_git_and_dvc_are_asked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project.parent / "dvc.yaml").write_text("stages: [")
    (project.parent / ".gitignore").write_text("*.lock\n")
    code, lines = said(project, capsys)
    assert code == 1 and "BROKEN  git ignores dvc.lock: line 1 of .gitignore is '*.lock'" in lines["git"]
    assert "BROKEN  dvc stage: './dvc.yaml' is invalid" in lines["dvc"]


def test_temporary_folder_too_long_for_sockets_is_broken(project: Path, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 130)
    long.mkdir()
    command = [sys.executable, "-m", "coevolve.cli", "doctor", "--params", str(project)]
    shown = subprocess.run(command, env={**os.environ, "TMPDIR": str(long)}, capture_output=True, text=True)
    assert shown.returncode == 1
    assert (
        f"BROKEN  TMPDIR is too long for the sockets of processes: {long}; set it to a shorter folder" in shown.stdout
    )
