"""Registries: modules by name, by entry point, and by the path of a file of the project."""

from pathlib import Path

import pytest

from coevolve.core.errors import CoevolveError
from coevolve.environments.registry import make
from coevolve.stages.code.digest import digest
from coevolve.stages.explore.explorer import carry_out, plan
from coevolve.stages.explore.explorers import EXPLORERS
from coevolve.stages.schema import Params, load
from tests import ROOT

EXPLORER = """
from coevolve.core.task import CallOutcome
from coevolve.stages.explore.explorer import record


class Waiting:
    def explore(self, requests):
        return (record(request, "waiting", [CallOutcome("wait", {}, "ok", True)]) for request in requests)


def make(config, means):
    return Waiting()
"""


def params_with(section: str, key: str, name: str) -> Params:
    params = load(ROOT / "params.yaml")
    return params.model_copy(update={section: getattr(params, section).model_copy(update={key: name})})


def test_an_explorer_of_a_file_explores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(EXPLORER)
    world = make("miniworld")
    params = params_with("explore", "explorer", "mine.py")
    config = params.explore.model_copy(update={"explorations": 3})
    planned = plan(world, world.tasks("seed")[:4], [], [], [], config, 0, 0)
    found, _, _ = carry_out(planned, config, params.policy, None, lambda count: None)  # type: ignore[arg-type]
    assert [(one.explorer, one.calls[0].name) for one in found] == [("waiting", "wait")] * 3


@pytest.mark.parametrize(
    ("stage", "section", "key"),
    [
        ("explore", "explore", "explorer"),
        ("synthesize", "synthesize", "synthesizer"),
    ],
)
def test_a_stage_runs_again_if_its_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, section: str, key: str
) -> None:
    monkeypatch.chdir(tmp_path)
    params = params_with(section, key, "studies/mine.py")
    file = Path("studies/mine.py")
    file.parent.mkdir()
    hashes = set()
    for text in ("A = 1\n", "A = 1  # a comment\n", "A = 2\nfrom coevolve.core import champion\n"):
        file.write_text(text)
        code = digest(stage, params)["code"]
        hashes.add(code["studies/mine.py"])
    assert len(hashes) == 2 and "coevolve/core/champion.py" in code
    assert "studies/mine.py" not in digest("signals", params)["code"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0\n", "explorer {}: {} cannot be imported: ZeroDivisionError: division by zero"),
        ("made = 1\n", "explorer {}: broken has no make"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(CoevolveError) as caught:
        EXPLORERS.find(str(file), "make")
    assert str(caught.value).startswith(said.format(file, file)) and "\n" not in str(caught.value)
