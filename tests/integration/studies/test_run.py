"""`python -m studies.run` in a project whose pipeline is one quick stage, and on stored results."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.io import read_jsonl, write_jsonl
from coevolve.stages.report.run_summary import SUMMARY
from studies import run as command
from studies.run_queue import look, work
from studies.study_results import Result
from tests import ROOT
from tests.unit.stages.report.example import SUMMARY as MADE
from tests.waiting import until

STUDY = """\
question: Does it matter?
seeds: [0, 1]
panel: validation
against: [plain]
arms:
  plain: {}
  old: {grpo.unsolved_groups: 4}
"""


def study(folder: Path, *words: str) -> int:
    return command.main([str(folder), *words])


def test_ended_study_keeps_its_results_and_gets_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study.yaml").write_text(STUDY + "ended: true\n")
    runs = [("plain", 0), ("plain", 1), ("old", 0)]  # `old` sets a key that is gone, and had another value
    write_jsonl(tmp_path / "results.jsonl", [Result(*one, {"validation": [0.5, 0.6]}, {}, []) for one in runs])
    assert study(tmp_path) == 0 and not (tmp_path / "table.md").exists(), "its files stay as they are"
    assert study(tmp_path, "--report") == 0
    shown = capsys.readouterr()
    assert "3 of 4 runs" in shown.out and "the study has ended" in shown.out and not shown.err
    assert "| old | 1 |" in (tmp_path / "table.md").read_text()


def report(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Output and errors of `coevolve study --report` with ``text`` as study.yaml."""
    (folder / "study.yaml").write_text(text)
    assert study(folder, "--report") == 0
    return capsys.readouterr()


PLAIN = STUDY.replace("  old: {grpo.unsolved_groups: 4}\n", "")
CUT = {"panel": "validation", "subsets": {"mail": ["find_mail"]}}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("  plain: {explore.guidance: random}\n", "plain 0 ran with {}, not {'explore.guidance': 'random'}"),
        ("  plain: {}\nsubsets: {mail: [send_mail]}\n", "plain 0 ran with other subsets"),
    ],
)
def test_results_of_another_study_are_ignored_and_kept_in_the_file(
    now: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    success = {"validation": [0.5, 0.6], "mail": [0.5, 0.6]}
    write_jsonl(tmp_path / "results.jsonl", [Result("plain", seed, success, {}, [], cut=CUT) for seed in (0, 1)])
    before = (tmp_path / "results.jsonl").read_bytes()
    assert "2 of 2 runs" in report(tmp_path, PLAIN, capsys)[0]
    out, err = report(tmp_path, PLAIN.replace("  plain: {}\n", now), capsys)
    assert "0 of 2 runs" in out and "2 lines of results.jsonl are not of this study" in err and said in err
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_results_of_a_deleted_arm_stay_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Result(arm, 0, {"validation": [0.5, 0.6]}, {}, []) for arm in ("plain", "gone")]
    write_jsonl(tmp_path / "results.jsonl", rows)
    before = (tmp_path / "results.jsonl").read_bytes()
    assert "1 of 2 runs" in report(tmp_path, PLAIN, capsys)[0]
    assert "gone" not in (tmp_path / "table.md").read_text()
    assert (tmp_path / "results.jsonl").read_bytes() == before


PIPELINE = f"""\
stages:
  report:
    cmd: {sys.executable} work.py
    deps: [work.py, made.json]
    params: [seed, explore]
    outs: [report]
"""
WORK = f"""\
import json, pathlib
from ruamel.yaml import YAML
params = YAML(typ="safe").load(pathlib.Path("params.yaml").read_text())
count = params["explore"]["explorations"]
assert count != 13
made = json.loads(pathlib.Path("made.json").read_text())
made["policies"][-1]["test"]["success"] = count / 1000 + params["seed"]
pathlib.Path("report").mkdir()
pathlib.Path("{SUMMARY}").write_text(json.dumps(made))
"""
QUEUED = """\
question: Does it matter?
seeds: [0]
panel: test
against: []
arms:
  few: {explore.explorations: 100}
  broken: {explore.explorations: 13}
"""


def git(*words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(["git", *who, *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a study. The working folder is its project, all committed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "POLL", 1.0)
    files = {"dvc.yaml": PIPELINE, "work.py": WORK, "made.json": json.dumps(asdict(MADE)), "small/study.yaml": QUEUED}
    for name, text in {**files, "params.yaml": (ROOT / "params.yaml").read_text()}.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    git("init", "-q")
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], check=True)
    git("add", "-A")
    git("commit", "-q", "-m", "a")
    return Path("small")


def test_run_that_lost_its_worker_is_named_and_begun_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    began = Path("began").resolve()
    Path("work.py").write_text(f"import pathlib, time\npathlib.Path({str(began)!r}).touch()\ntime.sleep(600)\n")
    git("commit", "-q", "-a", "-m", "wait")
    with ThreadPoolExecutor() as pool:
        waits = pool.submit(study, folder, "--arms", "few", "--jobs", "1")
        until(lambda: began.exists() and look() == ({"small-few-0": "Running"}, 1), "the run has not begun")
        worker = psutil.Process(int(Path(".dvc/tmp/exps/celery/dvc-exp-worker-1.pid").read_text()))
        for process in [worker, *worker.children(recursive=True)]:
            process.kill()
        with pytest.raises(CoevolveError, match=r"no worker runs small-few-0.*run the same command again"):
            waits.result()
    with pytest.raises(CoevolveError, match=r"^dvc exp: LexerNoViableAltException: "):
        work({"small-other-0": {"a b": 1}}, 1, {})
    git("revert", "--no-edit", "HEAD")
    assert study(folder, "--arms", "few") == 0
    assert "no worker runs small-few-0 any more: begun again" in capfd.readouterr().err


def test_arms_run_from_the_queue(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The first worker ends before it has taken a run, as DVC's does if it reads a file of the queue while it is written."""
    bin = Path(".dvc/tmp").resolve()
    (bin / "dvc").write_text(f'#!/bin/sh\nmkdir {bin}/ended 2>/dev/null && exit 1\nexec {sys.executable} -m dvc "$@"\n')
    (bin / "dvc").chmod(0o755)
    monkeypatch.setenv("PATH", str(bin), prepend=":")
    for words, message in (
        (["--arms", "fewer"], "--arms: no arm fewer; expected some of: few, broken"),
        (["--seeds", "3"], "--seeds: no seed 3; expected some of: 0"),
    ):
        with pytest.raises(CoevolveError, match=message):
            study(folder, *words)
    assert study(folder, "--arms", "few", "--jobs", "1") == 0, "the other was not asked for"
    assert (bin / "ended").is_dir() and "1 of 2 runs" in capfd.readouterr().out
    assert study(folder) == 1
    shown = capfd.readouterr()
    assert "1 of 2 runs" in shown.out and "failed: small-broken-0; `dvc queue logs NAME` says why" in shown.err
    assert (study(folder), look()[0]) == (1, {"small-few-0": "Success", "small-broken-0": "Failed"}), "others stay"
    (result,) = read_jsonl(folder / "results.jsonl", Result)
    assert (result.arm, result.seed, result.success["test"]) == ("few", 0, [0.4, 0.1])
    assert result.code == git("rev-parse", "HEAD").strip() and result.changes == {"explore.explorations": 100}
    assert "| few | 1 | 0.700 | 0.100 |" in (folder / "table.md").read_text()

    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("seed: 0", "seed: 5"))
    with pytest.raises(CoevolveError, match=r"commit params\.yaml first"):
        study(folder)
    git("checkout", "-q", "params.yaml")
    changed = QUEUED.replace("explorations: 100", "explorations: 101")
    (folder / "study.yaml").write_text(changed)
    with pytest.raises(
        CoevolveError, match=r"small-few-0 ran with explore.explorations 100, not 101.*dvc exp remove small-few-0"
    ):
        study(folder)
    subprocess.run([sys.executable, "-m", "dvc", "exp", "remove", "small-few-0"], check=True)  # as on another machine
    assert study(folder, "--report") == 0
    shown = capfd.readouterr()
    assert "0 of 2 runs" in shown.out and "few 0 ran with {'explore.explorations': 100}" in shown.err
