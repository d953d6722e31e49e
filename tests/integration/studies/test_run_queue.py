"""Experiments get exactly the parameters that a study sets."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from dvc.utils.hydra import apply_overrides
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from coevolve.core.errors import CoevolveError
from coevolve.studies import run_queue
from coevolve.studies.run_queue import KEY, _look, keys, override, settable, work
from tests.waiting import until

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"])).filter(
    lambda text: "${" not in text
)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
plain_keys = st.from_regex(KEY, fullmatch=True).filter(settable)


def nested(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
        max_leaves=5,
    )


def received(folder: Path, value: Any) -> Any:
    """The content of params.yaml after `dvc exp run -S key=value`."""
    file = folder / "params.yaml"
    file.write_text("key: 1\n")
    apply_overrides(file, [f"key={override(value)}"])
    return YAML(typ="safe").load(file.read_text())["key"]


ODD_KEYS = "a: 1, b|a: b|a b|true|Null|5|1e5|.5|inf|nan|nan-x|null.x|a}|a,b|a\\|${x}|-"
odd_keys = st.text(min_size=1, max_size=6) | st.sampled_from(ODD_KEYS.split("|"))


@given(value=nested(plain_keys | odd_keys))
@example(value=["5", "null", "true", "x,y", "a=b", "[1]", "\\", 'a\\"', "#", "~"])
def test_any_value_arrives_as_it_is_or_is_refused(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    try:
        arrived = received(tmp_path_factory.mktemp("project"), value)
    except CoevolveError as error:
        assert not all(map(settable, keys(value))) and "is not a key that" in str(error)
    else:
        assert arrived == value


PIPELINE = """\
stages:
  one:
    cmd: python work.py ${key} && echo ${key} > out.txt
    deps: [work.py]
    params: [key]
    outs: [out.txt]
"""
WORK = """\
import pathlib, sys
log = pathlib.Path({log!r})
log.open("a").write(sys.argv[1] + chr(10))
sys.exit(sys.argv[1] == "2")
"""


def project(folder: Path, script: str) -> None:
    """A repository with one stage that runs ``script``."""
    folder.mkdir()
    (folder / "dvc.yaml").write_text(PIPELINE)
    (folder / "params.yaml").write_text("key: 0\n")
    (folder / "work.py").write_text(script)
    for command in (
        "git init -q",
        "dvc init -q",
        "git add -A",
        "git -c user.name=a -c user.email=a@b.c commit -q -m a",
    ):
        words = command.split()
        subprocess.run([sys.executable, "-m", *words] if words[0] == "dvc" else words, cwd=folder, check=True)


def dvc(*words: str) -> str:
    return subprocess.run([sys.executable, "-m", "dvc", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the queue as often as can be."""
    monkeypatch.setattr(run_queue, "POLL", (0.1, 0.5))


def states() -> dict[str, str]:
    return {name: state for _, name, state in _look()[0]}


def waiting_for(file: Path) -> str:
    return f"import pathlib, time\nwhile not pathlib.Path({str(file)!r}).exists(): time.sleep(0.1)\n"


def start(name: str, key: int) -> None:
    """Queue an experiment, start a worker, and wait until it runs."""
    dvc("exp", "run", "--queue", "-n", name, "-S", f"key={key}")
    # not captured: the worker would hold the pipe open
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(
        [sys.executable, "-m", "dvc", "queue", "start"], check=True, stdout=subprocess.DEVNULL, env=environment
    )
    until(lambda: states().get(name) == "Running", f"{name} has not started")


def test_interrupt_ends_only_the_experiments_of_its_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = tmp_path / "go"
    project(tmp_path / "project", waiting_for(go))
    monkeypatch.chdir(tmp_path / "project")
    start("theirs", 3)

    def collect(ended: Sequence[str]) -> Sequence[str]:
        if states().get("first") == "Running":
            raise KeyboardInterrupt
        return ended

    with pytest.raises(KeyboardInterrupt):
        work({"first": {"key": 1}, "second": {"key": 2}}, 2, collect)
    assert states()["theirs"] == "Running" and "second" not in states() and states()["first"] != "Running"
    go.touch()
    until(lambda: states()["theirs"] == "Success", "theirs has not ended")


def test_failed_experiment_is_named_and_one_that_waits_gets_its_new_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, folder = tmp_path / "log", tmp_path / "project"
    project(folder, WORK.format(log=str(log)))
    monkeypatch.chdir(folder)
    whole: list[str] = []
    # an earlier call waits with other changes
    dvc("exp", "run", "--queue", "-n", "first", "-S", "key=9")

    def collect(ended: Sequence[str]) -> Sequence[str]:
        whole.extend(ended)
        return ended

    assert work({"first": {"key": 1}, "second": {"key": 2}}, 1, collect) == ["second"]
    assert whole == ["first"]
    assert sorted(log.read_text().split()) == ["1", "2"]


def test_experiment_of_a_killed_machine_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DVC keeps its tasks as running."""
    folder, go = tmp_path / "project", tmp_path / "go"
    project(folder, waiting_for(go))
    monkeypatch.chdir(folder)
    start("first", 1)
    found = psutil.process_iter(["pid", "cwd"])
    for one in [one for one in found if one.info["cwd"] and Path(one.info["cwd"]).is_relative_to(folder)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.info["pid"] != os.getpid():
                one.kill()
    monkeypatch.setattr(run_queue, "SILENCE", 15.0)
    with pytest.raises(CoevolveError, match="ended before first; call again, after `dvc queue kill --force first`"):
        work({"first": {"key": 1}}, 1, lambda ended: ended)
    dvc("queue", "kill", "--force", "first")
    go.touch()
    assert work({"first": {"key": 1}}, 1, lambda ended: ended) == []
