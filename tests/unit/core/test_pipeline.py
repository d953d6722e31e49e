"""dvc.yaml as a program reads it, and the key of checkpoints."""

import re
import shutil
from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.core.pipeline import PipelineStep, scratch_key, steps
from coevolve.stages.schema import parse
from tests import ROOT

PARAMS = parse({"iterations": [{"t": 0, "next": 1}, {"t": 1, "next": 2}]}, "params.yaml")
KEYED = ("base", "warm", "generator", "evaluate", "pairs", "train", "generate")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every file that a stage of dvc.yaml reads."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    for step in steps(PARAMS.iterations):
        for dep in step.deps:
            for file in parts(dep):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(str(file))
    return tmp_path


def parts(dep: str) -> list[Path]:
    """The files of a dependency: the file itself, or two files in a folder, one of them nested."""
    return [Path(dep)] if Path(dep).suffix else [Path(dep) / "a.json", Path(dep) / "b" / "c"]


def keyed() -> list[PipelineStep]:
    """The steps that keep checkpoints, for the second iteration where they repeat."""
    return [step for step in steps(PARAMS.iterations) if step.stage in KEYED and step.t in (None, 1)]


def key(step: PipelineStep) -> str:
    return scratch_key(step.stage, step.t, PARAMS)


def test_stages_are_unrolled_over_iterations(folder: Path) -> None:
    found = list(steps(PARAMS.iterations))
    assert [step.t for step in found if step.stage == "train"] == [0, 1]
    assert [step.t for step in found if step.stage == "evaluate"] == [0, 1, 2]
    second = next(step for step in found if (step.stage, step.t) == ("train", 1))
    assert {"policies/0", "policies/1", "data/1/pairs"} <= set(second.deps) and "policies/2" in second.outs
    (report,) = [step for step in found if step.stage == "report"]
    assert report.t is None and "data/2/summary/evaluate.json" in report.deps


def test_key_changes_with_each_file_that_the_stage_depends_on(folder: Path) -> None:
    """No input is forgotten."""
    for step in keyed():
        before, seen = key(step), set()
        for dep in step.deps:
            for file in parts(dep):
                text = file.read_text()
                file.write_text(f"{text}, changed")
                seen.add(key(step))
                file.write_text(text)
        assert before not in seen
        assert len(seen) == sum(len(parts(dep)) for dep in step.deps), "each gives another key"
        assert key(step) == before


def test_key_changes_with_nothing_else(folder: Path) -> None:
    everything = {file for step in steps(PARAMS.iterations) for dep in step.deps for file in parts(dep)}
    for step in keyed():
        before = key(step)
        others = everything - {file for dep in step.deps for file in parts(dep)}
        texts = {file: file.read_text() for file in others}
        for file in others:
            file.write_text("changed")
        assert key(step) == before
        for file, text in texts.items():
            file.write_text(text)


def test_iteration_missing_from_dvc_yaml_is_a_one_line_error(folder: Path) -> None:
    with pytest.raises(CoevolveError, match=r"dvc\.yaml: no stage runs train 5; append the iteration to params.yaml"):
        scratch_key("train", 5, PARAMS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("stages: [1]\n", "dvc.yaml: expected a section `stages`; restore it with git"),
        ("stages: {train: {deps: [a]}}\n", "dvc.yaml: stage train: expected cmd, deps and outs"),
    ],
)
def test_malformed_dvc_yaml_is_a_one_line_error(folder: Path, text: str, says: str) -> None:
    (folder / "dvc.yaml").write_text(text)
    with pytest.raises(CoevolveError, match=re.escape(says)):
        list(steps(PARAMS.iterations))
